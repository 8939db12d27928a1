#include "sim/forecast/schedule_runs.hpp"

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/pipeline_run.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Schedule made(const std::string& name, const ScheduleRequest& request) { return *make_schedule(name, request); }

ScheduleRun run_of(const std::string& name, const ScheduleRequest& request,
                   std::optional<std::int64_t> overlapped = {}) {
  const Schedule schedule = made(name, request);
  return *run_schedule(schedule, uniform_times(schedule, request.times, overlapped));
}

ScheduleRun steady_run_of(const std::string& name, ScheduleRequest request) {
  const int microbatches = request.microbatches;
  request.microbatches = steady_state_microbatches(request.ranks, microbatches);
  return steady_state(run_of(name, request), microbatches);
}

std::vector<std::vector<Interval>> intervals(const ScheduleRun& run) {
  std::vector<std::vector<Interval>> result;
  for (const std::vector<ActionSpan>& list : run.actions) {
    result.emplace_back();
    for (const ActionSpan& span : list) result.back().push_back({span.start, span.end});
  }
  return result;
}

/// Scenarios of the repository with more than one pipeline rank.
std::vector<Scenario> shipped_pipelines() {
  std::vector<Scenario> result;
  for (const auto& file : shipped_scenarios({"published", "case_studies", "teaching", "cpu"}))
    if (Scenario scenario = *read_scenario(file, shipped_data()); scenario.parallel.pp > 1)
      result.push_back(std::move(scenario));
  return result;
}

/// Pairs of actions in the wrong order: actions of a rank do not overlap, and a forward begins after that of the stage
/// before it has ended.
int wrong_orders(const ScenarioRun& of) {
  int wrong = 0;
  std::map<std::pair<int, int>, std::int64_t> forward_ends;  // (stage, micro-batch)
  const auto stage = [&](std::size_t rank, const Action& a) {
    return of.schedule.stage_of[rank][static_cast<std::size_t>(a.chunk)];
  };
  for (std::size_t rank = 0; rank < of.run.actions.size(); ++rank) {
    std::int64_t before = 0;
    for (const ActionSpan& span : of.run.actions[rank]) {
      if (span.start < before || span.end > of.run.makespan) ++wrong;
      before = span.end;
      if (span.action.kind == ActionKind::forward)
        forward_ends[{stage(rank, span.action), span.action.microbatch}] = span.end;
    }
  }
  for (std::size_t rank = 0; rank < of.run.actions.size(); ++rank)
    for (const ActionSpan& span : of.run.actions[rank]) {
      const int own = stage(rank, span.action);
      if (span.action.kind != ActionKind::forward || own == 0) continue;
      const auto input = forward_ends.find({own - 1, span.action.microbatch});
      if (input != forward_ends.end() && span.start < input->second) ++wrong;
    }
  return wrong;
}

}  // namespace

TEST_CASE("the engine runs every schedule as the closed simulator does", "[schedule][differential]") {
  for (const ScheduleVariant& variant : schedule_variants()) {
    for (int chunks : {0, 1, 4}) {
      for (std::int64_t latency : {0, 1, 5}) {
        const ScheduleRequest request{.ranks = 4, .microbatches = 8, .chunks = chunks, .times = {3, 4, 2, latency}};
        const Result<Schedule> schedule = make_schedule(std::string(variant.name), request);
        if (!schedule) continue;
        INFO(variant.name << " chunks " << chunks << " latency " << latency);
        const PipelineTimes times = uniform_times(*schedule, request.times, 8);
        const ScheduleRun run = *run_schedule(*schedule, times);
        const PipelineRun expected = *simulate_pipeline(*schedule, times);
        CHECK(intervals(run) == expected.actions);
        CHECK(run.makespan == expected.makespan);
        CHECK(run.max_rank_span == expected.max_rank_span);
        CHECK(run.peak_inflight == expected.peak_inflight);
        CHECK(run.peak_inflight_until_weight == expected.peak_inflight_until_weight);
      }
    }
  }
}

TEST_CASE("a schedule drawn for a scenario lasts as long as its forecast", "[schedule][forecast]") {
  const std::vector<Scenario> scenarios = shipped_pipelines();
  CHECK(scenarios.size() >= 25);
  test::EverySeventh selection;
  for (const Scenario& scenario : scenarios) {
    if (selection.leaves_out()) continue;
    INFO(scenario.name);
    const ForecastRun step = *forecast(scenario);
    const ScenarioRun drawn = *run_pipeline(scenario);
    const double makespan_s = 1e-3 * static_cast<double>(drawn.run.makespan) / static_cast<double>(drawn.run.scale);
    CHECK(makespan_s == Approx(step.forecast.step_time_s).epsilon(0.02));
    const double exposed_s = step.forecast.exposed_s[static_cast<std::size_t>(Traffic::pipeline)];
    const double waiting_s = step.forecast.bubble_fraction * step.forecast.step_time_s + exposed_s;
    CHECK(drawn.run.bubble_fraction == Approx(waiting_s / step.forecast.step_time_s).epsilon(0.02));
    CHECK(wrong_orders(drawn) == 0);
  }
}

TEST_CASE("a whole backward is timed whole, and both parts of a divided one apart", "[schedule][forecast]") {
  const ScenarioRun whole = *run_pipeline(shipped_scenario("pipeline-1f1b"));
  const ScenarioRun split = *run_pipeline(shipped_scenario("pipeline-1f1b", {"parallel.pp_schedule=zb-h1"}));
  const RankPassTimes a = mean_pass_times(whole.schedule, whole.run);
  const RankPassTimes b = mean_pass_times(split.schedule, split.run);
  for (std::size_t rank = 0; rank < a.forward.size(); ++rank) {
    CHECK(a.forward[rank] == Approx(b.forward[rank]).epsilon(0.02));
    CHECK(a.backward_input[rank] == 0);
    CHECK(b.backward[rank] == 0);
    // The parts repeat nothing: together they compute as long as the whole, and host and transfers hide a little less.
    CHECK(b.backward_input[rank] + b.backward_weight[rank] >= 0.98 * a.backward[rank]);
    CHECK(b.backward_input[rank] + b.backward_weight[rank] <= 1.25 * a.backward[rank]);
  }
  CHECK(whole.longest_message.picoseconds > 0);
}

TEST_CASE("no bubble is negative when overlapped pairs are quick", "[schedule][property]") {
  // The work of a pair is its time: eight pairs of 1 per rank are less work than their parts, and not less than nothing.
  for (const std::int64_t pair : {1, 5, 20}) {
    const ScheduleRun run = run_of("dualpipe", {.ranks = 4, .microbatches = 10, .times = {2, 2, 2, 0}}, pair);
    CHECK(run.bubble_fraction >= 0);
    CHECK(run.own_span_bubble_fraction >= 0);
    CHECK(run.work <= run.max_rank_span);
  }
}

TEST_CASE("uneven stages: the bubble is the idle time of the mean rank", "[schedule][oracle]") {
  // Three ranks of 3 and one of 30 per micro-batch, eight micro-batches: mean work 8 (3 x 3 + 30) / 4 = 78. The slow last
  // rank begins after three forwards and is never idle, 8 x 30, and its last gradient goes up in 3 x 2: 249.
  const Schedule schedule = made("1f1b", {.ranks = 4, .microbatches = 8});
  PipelineTimes times = uniform_times(schedule, {1, 1, 1, 0});
  times.stages[3] = {10, 10, 10};
  const ScheduleRun run = *run_schedule(schedule, times);
  CHECK(run.makespan == 249);
  CHECK(run.work == 240);
  CHECK(run.bubble_fraction == Approx(1 - 78.0 / 249));
}

TEST_CASE("ZB-H2 has no bubble in the ranks' own spans, ZB-H1 has", "[schedule][oracle]") {
  const ScheduleRequest request{.ranks = 4, .microbatches = 8};
  const ScheduleRun h1 = run_of("zb-h1", request);
  const ScheduleRun h2 = run_of("zb-h2", request);
  CHECK(h1.bubble_fraction == Approx(3.0 / 27));  // ranks begin one after the other in both
  CHECK(h2.bubble_fraction == Approx(3.0 / 27));
  CHECK(h1.own_span_bubble_fraction == Approx(3.0 / 27));
  CHECK(h2.own_span_bubble_fraction == 0);
}

TEST_CASE("a schedule without a flush has no bubble in its steady state", "[schedule][oracle]") {
  const std::string name = GENERATE("pipedream", "pipedream-2bw");
  const int ranks = GENERATE(2, 4, 8);
  const ScheduleRun run = steady_run_of(name, {.ranks = ranks, .microbatches = 16, .times = {7, 10, 4, 0}});
  CHECK(run.makespan == 16 * (7 + 10 + 4));
  CHECK(run.bubble_fraction == 0);
  CHECK(run.own_span_bubble_fraction == 0);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    CHECK(run.peak_inflight[r] == ranks - rank);
    CHECK(run.actions[r].front().start == 0);
    CHECK(run.actions[r].back().end == run.makespan);
    for (const ActionSpan& span : run.actions[r]) CHECK(span.action.microbatch < 16);
  }
}

TEST_CASE("in a steady state messages still take time", "[schedule][oracle]") {
  // A micro-batch takes P (f+B) and 2 (P-1) messages from its first forward to its last backward. Rank 0 has P of them in
  // flight, so that P end in that time.
  const ScheduleRun run = steady_run_of("pipedream", {.ranks = 4, .microbatches = 16, .times = {1, 1, 1, 1}});
  CHECK(run.makespan == 16 / 4 * (4 * 3 + 2 * 3));
  CHECK(run.bubble_fraction == Approx(6.0 / 18));
}

TEST_CASE("in a steady state the rate does not depend on the number of micro-batches", "[schedule][oracle]") {
  const auto rank_times = [](std::vector<std::int64_t> each, std::int64_t latency, int microbatches) {
    const auto ranks = static_cast<int>(each.size());
    const Schedule schedule =
        made("pipedream", {.ranks = ranks, .microbatches = steady_state_microbatches(ranks, microbatches)});
    PipelineTimes times = uniform_times(schedule, {1, 1, 1, latency});
    for (std::size_t rank = 0; rank < each.size(); ++rank) times.stages[rank] = {each[rank], each[rank], each[rank]};
    return steady_state(*run_schedule(schedule, times), microbatches);
  };
  const int microbatches = GENERATE(1, 2, 3, 4, 5, 8, 17);
  CAPTURE(microbatches);
  // Messages of 3: the round trip of the four micro-batches in flight on rank 0 takes 4 x 3 + 6 x 3 = 30.
  const ScheduleRun even = rank_times({1, 1, 1, 1}, 3, microbatches);
  CHECK(4 * even.makespan == microbatches * 30 * even.scale);
  CHECK(even.work == microbatches * 3 * even.scale);
  CHECK(even.bubble_fraction == Approx(1 - 3 / 7.5));
  CHECK(even.peak_inflight == std::vector<int>{4, 3, 2, 1});
  // A quick first rank: the three in flight on rank 1 limit the rate, 3 x 9 + 4 x 7 = 55, more than (28 + 42 + 0) / 4 each.
  const ScheduleRun uneven = rank_times({0, 3, 3, 3}, 7, microbatches);
  CHECK(3 * uneven.makespan == microbatches * 55 * uneven.scale);
  CHECK(uneven.work == microbatches * 9 * uneven.scale);
}

TEST_CASE("a steady state of PipeDream-2BW has one update for all micro-batches", "[schedule][forecast]") {
  const auto makespan_ms = [](const char* schedule, const std::string& more) {
    const ScenarioRun of =
        *run_pipeline(shipped_scenario("pipeline-1f1b", {std::string("parallel.pp_schedule=") + schedule, more}));
    return static_cast<double>(of.run.makespan) / static_cast<double>(of.run.scale);
  };
  const std::string adam = "training.optimizer=adam", sgd = "training.optimizer=sgd";
  // The update is as much longer as in the step with a flush, which has the same passes.
  const double longer = makespan_ms("1f1b", adam) - makespan_ms("1f1b", sgd);
  CHECK(longer > 1);
  CHECK(makespan_ms("pipedream-2bw", adam) - makespan_ms("pipedream-2bw", sgd) == Approx(longer).epsilon(0.01));
  // It saves the bubble and no more.
  const ScenarioRun steady = *run_pipeline(shipped_scenario("pipeline-1f1b", {"parallel.pp_schedule=pipedream-2bw"}));
  const ForecastRun flushed = *forecast(shipped_scenario("pipeline-1f1b"));
  CHECK(steady.run.makespan > steady.run.work);
  CHECK(makespan_ms("pipedream-2bw", adam) < 1e3 * flushed.forecast.step_time_s);
  CHECK(makespan_ms("pipedream-2bw", adam) >
        1e3 * flushed.forecast.step_time_s * (1 - flushed.forecast.bubble_fraction));
}

TEST_CASE("updates between the passes of PipeDream are not its bubble", "[schedule][forecast]") {
  const auto drawn = [](const char* optimizer) {
    return *run_pipeline(
        shipped_scenario("pipeline-1f1b", {"parallel.pp_schedule=pipedream", "model.tied_embeddings=false",
                                           std::string("training.optimizer=") + optimizer}));
  };
  const ScenarioRun adam = drawn("adam");
  const ScenarioRun sgd = drawn("sgd");  // with shorter updates
  const auto makespan = [](const ScenarioRun& each) {
    return static_cast<double>(each.run.makespan) / static_cast<double>(each.run.scale);
  };
  const double longer = makespan(adam) - makespan(sgd);
  CHECK(longer > 0.1 * makespan(sgd));
  // Stages have unequal updates, for whose difference some wait.
  const double waits_longer = adam.run.bubble_fraction * makespan(adam) - sgd.run.bubble_fraction * makespan(sgd);
  CHECK(waits_longer > 0);
  CHECK(waits_longer < 0.25 * longer);
}

TEST_CASE("replicas differ where a rank computes unlike its counterparts in data parallelism", "[schedule][forecast]") {
  const auto differ = [](const std::vector<std::string>& overrides) {
    const Scenario scenario = shipped_scenario("llama3-70b-two-generations", overrides);
    return replicas_differ(scenario.perturbation, *make_plan(scenario.model, scenario.parallel, scenario.training,
                                                             scenario.cluster.world_size));
  };
  CHECK_FALSE(differ({}));  // whole stages of another GPU
  CHECK(differ({"perturb.slow_rank.5=1.2"}));
  CHECK(differ({"perturb.speed_spread=0.05"}));
}
