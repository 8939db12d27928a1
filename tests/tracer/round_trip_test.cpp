// The round trip: a simulated step is written as GPUs would have recorded it, goes through the recorder's files, `replay` and
// `profile --from`, and a forecast with that profile gives the step it came from, and the step of eight times the GPUs.

#include <cmath>

#include <catch2/catch.hpp>

#include "sim/cost/slowest_rank.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/forecast/compare.hpp"
#include "sim/import/importers.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/files.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tracer/foreign_recordings.hpp"
#include "tests/tracer/recorded_ranks.hpp"
#include "tests/tracer/simulated_recording.hpp"
#include "tracer/measured_profile.hpp"
#include "tracer/named_record.hpp"
#include "tracer/replay.hpp"

using namespace tracecast;

namespace {

ForecastRun with_spans(const Scenario& scenario) {
  return value_of(forecast(scenario, {.unfold = true, .record_spans = true}));
}

std::vector<NamedTrace> read_all(const std::vector<std::filesystem::path>& paths) {
  std::vector<NamedTrace> traces;
  for (const auto& path : paths) {
    Trace trace = value_of(read_any_recording(path));
    traces.push_back({path.string(), std::move(trace)});
  }
  return traces;
}

double step_of(const Scenario& scenario) {
  const ForecastRun run = value_of(forecast(scenario));
  return run.forecast.step_time_s;
}

/// Of the dense model's 32 layers: with sanitizers fewer, since more take the same paths.
std::string layers() { return "model.num_layers=" + std::to_string(test::kSanitized ? 8 : 32); }

struct Case {
  const char* name;
  int ranks;
  std::vector<std::string> settings;
};

/// The scenario on `times` as many GPUs, with as many more sequences.
Scenario scenario_of(const Case& c, int times) {
  std::vector<std::string> settings = c.settings;
  settings.push_back("training.global_batch_size=" + std::to_string(8 * times));
  return test::scenario_of(c.ranks * times, settings);
}

/// With the recorded profile a job has the step time that it was recorded from, to 1 %, and a job of eight times the ranks to `larger`.
void check_forecasts(const Case& c, const Profile& profile, double larger) {
  for (const int times : {1, 8}) {
    if (times == 8 && test::kSanitized) continue;  // takes the same paths
    const Scenario original = scenario_of(c, times);
    Scenario recorded = original;
    recorded.profile = profile;
    wait_for_slowest(recorded.profile, c.ranks * times, original.gpu_spread);
    const double expected = step_of(original);
    const double found = step_of(recorded);
    CAPTURE(times, expected, found, found / expected - 1);
    CHECK(std::abs(found / expected - 1) < (times == 1 ? 0.01 : larger));
  }
}

}  // namespace

TEST_CASE("round trip: a recorded step is forecast as it was, and on eight times the GPUs", "[round-trip][tracer]") {
  const Case c = GENERATE(
      Case{"tp 8", 8, {layers()}}, Case{"tp 4, pp 2", 8, {layers(), "parallel.tp=4", "parallel.pp=2"}},
      Case{"tp 2, dp 4", 8, {layers(), "parallel.tp=2"}},
      Case{"pp 4, dp 2: messages", 8, {layers(), "parallel.tp=1", "parallel.sequence_parallel=false", "parallel.pp=4"}},
      Case{"ep 8: experts",
           8,
           {"model=mixtral-8x7b", "parallel.tp=1", "parallel.sequence_parallel=false", "parallel.ep=8",
            "parallel.zero_stage=1"}});
  CAPTURE(c.name);
  const Scenario scenario = scenario_of(c, 1);
  const ForecastRun run = with_spans(scenario);
  const TemporaryFolder folder;
  const std::vector<NamedTrace> traces = read_all(test::write_recordings(run, folder.path()));

  const MeasuredProfile measured = value_of(measured_profile(traces, run.graph, scenario.profile));
  CHECK(measured.matched == measured.kernels);
  CHECK(measured.collectives_matched == measured.collectives);
  CHECK(measured.steps == 2 * c.ranks);

  check_forecasts(c, measured.profile, 0.02);
}

TEST_CASE("round trip: the same step as PyTorch's profiler and as Nsight Systems record it",
          "[round-trip][tracer][kineto][nsight]") {
  const bool nsight = GENERATE(false, true);
  CAPTURE(nsight);
  const Case c{"tp 4, dp 2", 8, {layers(), "parallel.tp=4", "parallel.zero_stage=1"}};
  const Scenario scenario = scenario_of(c, 1);
  const TemporaryFolder folder;
  std::vector<Trace> ranks;
  for (NamedTrace& each : read_all(test::write_recordings(with_spans(scenario), folder.path(), {.steps = 3})))
    ranks.push_back(std::move(each.trace));
  std::vector<std::filesystem::path> paths;
  if (nsight) {
    paths.push_back(folder.path() / "node.sqlite");
    test::write_nsight(ranks, paths.back());
  } else {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      paths.push_back(folder.path() / ("rank" + std::to_string(r) + ".json"));
      test::write_kineto(ranks[r], paths.back());
    }
  }
  const MeasuredProfile measured =
      value_of(measured_profile(read_all(paths), with_spans(scenario).graph, scenario.profile));
  CHECK(measured.matched == measured.kernels);
  CHECK(measured.steps == 3 * c.ranks);
  CHECK(100 * measured.collectives_matched >= (nsight ? 90 : 100) * measured.collectives);
  check_forecasts(c, measured.profile, 0.01);
}

TEST_CASE("round trip: a recorded step has the operators of its forecast", "[round-trip][tracer]") {
  // On later stages a step begins with the wait for a message, which is launched before the first computation.
  const std::string layout = GENERATE(as<std::string>(), "parallel.tp=4", "parallel.pp=2", "parallel.pp=4");
  CAPTURE(layout);
  const Scenario scenario = test::scenario_of(
      8, {layers(), "parallel.tp=2", "parallel.sequence_parallel=false", layout, "training.global_batch_size=8"});
  const ForecastRun run = with_spans(scenario);
  const StepRecord forecast = record_of(run.graph, run.timeline, "s", StepOrigin::simulated);
  const TemporaryFolder folder;
  std::vector<Replay> replays;
  for (const NamedTrace& each : read_all(test::write_recordings(run, folder.path(), {.steps = 3}))) {
    CHECK(recorded_steps(each.trace) == std::vector<std::int64_t>{1, 2, 3});
    Replay replay = value_of(replay_graph(each.trace, 2, each.file));
    replays.push_back(std::move(replay));
  }
  const Replay all = join_ranks(std::move(replays));
  const Result<Timeline> timeline = simulate(all.graph, {}, {.record_spans = true});
  REQUIRE(timeline);
  const StepRecord recorded = named_as(record_of(all.graph, *timeline, "run.trace", StepOrigin::executed), forecast);
  const Comparison comparison = value_of(compare(forecast, recorded, 0.02));
  CAPTURE(comparison.forecast_s, comparison.actual_s);
  CHECK(comparison.within());
  CHECK(comparison.works.size() > 8);
  for (const Difference& each : comparison.works) {
    if (each.forecast_s < 0.01 * comparison.forecast_s) continue;  // a few short kernels
    CAPTURE(each.name, each.forecast_s, each.actual_s);
    CHECK(each.actual_s == Approx(each.forecast_s).epsilon(0.02));
  }
}

// Writes the sample of docs/tutorial/recorded.md.
TEST_CASE("round trip: write the recordings of a node", "[.][write-sample]") {
  const std::filesystem::path root = source_dir();
  const std::filesystem::path folder = root / "docs/formats/samples/node";
  const Scenario scenario = value_of(
      read_scenario(folder / "scenario.json", {root / "scenarios", root / "topologies", root / "kernels/profiles"}));
  const TemporaryFolder plain;
  for (const auto& path : test::write_recordings(with_spans(scenario), plain.path(), {.steps = 3}))
    REQUIRE(pack(path, folder / (path.filename().string() + ".gz")));
}

TEST_CASE("round trip: the recordings of all ranks replay to the step that was recorded", "[round-trip][tracer]") {
  const Scenario scenario = test::scenario_of(8, {"parallel.tp=4", "parallel.pp=2", "training.global_batch_size=4"});
  const ForecastRun run = with_spans(scenario);
  const TemporaryFolder folder;
  std::vector<Replay> replays;
  for (const NamedTrace& each : read_all(test::write_recordings(run, folder.path(), {.steps = 1, .jitter = 0}))) {
    Replay replay = value_of(replay_graph(each.trace, std::nullopt, each.file));
    replays.push_back(std::move(replay));
  }
  const Replay all = join_ranks(std::move(replays));
  CHECK(all.graph.ranks.size() == 8);
  CHECK(all.met > 0);
  const double recorded = seconds(run.timeline.step_time);
  CHECK(seconds(all.recorded) == Approx(recorded).epsilon(0.01));
  CHECK(seconds(simulate(all.graph)->step_time) == Approx(recorded).epsilon(0.01));
}
