// What --set moves: the parts and their sum, the price, and what is printed.
#include "sim/forecast/change.hpp"

#include <cmath>
#include <numeric>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/report/json.hpp"
#include "sim/report/terminal.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Scenario scenario_with(const std::vector<std::string>& overrides) {
  const DataPaths data = shipped_data();
  return read_scenario(data.scenarios / "published/llama3-405b-16k.json", data, overrides).value();
}

const ForecastRun& unchanged_run() {
  static const ForecastRun run = forecast(scenario_with({})).value();
  return run;
}

}  // namespace

TEST_CASE("change: the parts of a step sum to it, and the moves to the change", "[forecast]") {
  const Forecast& before = unchanged_run().forecast;
  const Forecast after = forecast(scenario_with({"training.seq_length=16384"})).value().forecast;
  double step_s = 0;
  for (const StepPart& part : step_parts(before)) step_s += part.time_s;
  CHECK(step_s == Approx(before.step_time_s).epsilon(1e-9));
  const std::vector<MovedPart> moves = moved_parts(before, after);
  double moved_s = 0;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    moved_s += moves[i].by_s();
    if (i > 0) CHECK(std::abs(moves[i].by_s()) <= std::abs(moves[i - 1].by_s()));
  }
  CHECK(moved_s == Approx(after.step_time_s - before.step_time_s).epsilon(1e-9));
  CHECK(moves.front().name == "gemm");  // twice the tokens in the same micro-batches
}

TEST_CASE("change: the rent of a million tokens", "[forecast]") {
  Forecast forecast;
  forecast.ranks = 100;
  forecast.tokens_per_s = 50'000;
  // 100 GPUs need 20 s: 2000 GPU-seconds = 0.5556 GPU-hours, at 1, 2 and 4 dollars.
  const Range3 usd = for_million_tokens({1, 2, 4}, forecast);
  CHECK(usd.low == Approx(2000.0 / 3600));
  CHECK(usd.typical == Approx(4000.0 / 3600));
  CHECK(usd.high == Approx(8000.0 / 3600));
  forecast.packed = PackedForecast{.useful_share = 0.5, .useful_tokens_per_s = 25'000};
  CHECK(for_million_tokens({1, 2, 4}, forecast).low == Approx(4000.0 / 3600));
}

TEST_CASE("change: page and JSON show the run without --set, and its measurement", "[forecast][report]") {
  const Scenario changed = scenario_with({"training.seq_length=16384"});
  const ForecastRun run = forecast(changed).value();
  const Unchanged unchanged{
      unchanged_run().forecast, scenario_with({}).measured, {"training.seq_length=16384"}, std::nullopt, std::nullopt};
  const std::string page = terminal_page(changed, run.plan, run.forecast, {}, &unchanged);
  CHECK(page.find("  without --set   ") != std::string::npos);
  CHECK(page.find("measured        without --set 6.72 s   the forecast is ") != std::string::npos);
  CHECK(page.find("What --set changes ---") != std::string::npos);
  CHECK(terminal_page(changed, run.plan, run.forecast, {}).find("--set") == std::string::npos);
  const std::string json = result_json(changed, run.forecast, &unchanged);
  CHECK(schema_violations(source_dir() / "docs/schema/result.schema.json", json) == std::vector<std::string>{});
  CHECK(json.find("\"unchanged\"") != std::string::npos);
}

TEST_CASE("change: a terminal of 72 columns has the time and the share of a change, a narrower one the time",
          "[forecast][report]") {
  const Scenario scenario = scenario_with({});
  const ForecastRun& run = unchanged_run();
  Unchanged unchanged{run.forecast, scenario.measured, {"x=1"}, std::nullopt, std::nullopt};
  unchanged.forecast.step_time_s *= 2;
  const auto step_row = [&](int width) {
    const std::string page = terminal_page(scenario, run.plan, run.forecast, {.width = width}, &unchanged);
    const std::size_t table = page.find("What --set changes");
    REQUIRE(table != std::string::npos);
    const std::size_t row = page.find("step time", table);
    return page.substr(row, page.find('\n', row) - row);
  };
  CHECK(step_row(72).ends_with("-50.0 %"));
  CHECK(step_row(71).ends_with(" s"));
}

TEST_CASE("set: a measurement is of the run in the file", "[io]") {
  CHECK(scenario_with({}).measured.has_value());
  CHECK_FALSE(scenario_with({"training.seq_length=16384"}).measured.has_value());
  CHECK_FALSE(scenario_with({"cluster.gpu_spread=0", "parallel.zero_stage=1"}).measured.has_value());
  // The real run does not know these.
  CHECK(scenario_with({"cluster.gpu_spread=0", "training.train_tokens=2T"}).measured.has_value());
}

TEST_CASE("set: degrees that follow are derived, and said", "[io]") {
  const auto notes = [](const Scenario& scenario) {
    return std::accumulate(scenario.notes.begin(), scenario.notes.end(), std::string());
  };
  // 16,384 GPUs; the file has tp 8, pp 16, dp 128.
  const Scenario smaller = scenario_with({"parallel.tp=4"});
  CHECK(forecast(smaller).value().plan.grid.size(Axis::dp) == 256);
  CHECK(notes(smaller) == "parallel.dp is 256, which follows from --set (the file has 128)");
  CHECK(forecast(scenario_with({"cluster.world_size=8192"})).value().plan.grid.size(Axis::dp) == 64);
  CHECK(notes(scenario_with({"parallel.tp=8"})).empty());
  // What is given is kept, and refused where it does not fit.
  CHECK_FALSE(forecast(scenario_with({"parallel.tp=4", "parallel.dp=128"})).has_value());
  CHECK_FALSE(forecast(scenario_with({"parallel.tp=4", "parallel.pp=15"})).has_value());
  const Scenario one = scenario_with({"parallel.tp=1", "parallel.pp=1"});
  CHECK(one.parallel.vpp == 1);
  CHECK_FALSE(one.parallel.sequence_parallel);
  // A degree of 1 in the file follows as well; one that the file does not give was never there to change.
  const DataPaths data = shipped_data();
  const Scenario from_one = read_scenario(data.scenarios / "published/korthikanti-22b-full.json", data,
                                          {"parallel.tp=4", "training.micro_batch_size=2"})
                                .value();
  CHECK(forecast(from_one).value().plan.grid.size(Axis::dp) == 2);
  CHECK(notes(from_one).find("parallel.dp is 2, which follows from --set (the file has 1)") != std::string::npos);
  const Scenario free =
      read_scenario(data.scenarios / "teaching/llama3-8b-packed.json", data, {"parallel.tp=2"}).value();
  CHECK(notes(free).find("parallel.dp") == std::string::npos);
  // A schedule brings its chunks: the file has interleaved-1f1b with 8.
  CHECK(scenario_with({"parallel.pp_schedule=zb-h1"}).parallel.vpp == 1);
  CHECK(scenario_with({"parallel.pp_schedule=zb-v"}).parallel.vpp == 2);
  CHECK(scenario_with({"parallel.pp_schedule=interleaved-1f1b"}).parallel.vpp == 8);
}

TEST_CASE("set: one key of a shipped model", "[io]") {
  const Scenario whole = scenario_with({});
  const Scenario shallow = scenario_with({"model.num_layers=62", "parallel.vpp=1", "parallel.pp_schedule=1f1b"});
  CHECK(shallow.model.num_layers == 62);
  CHECK(shallow.model.hidden_size == whole.model.hidden_size);
  CHECK(shallow.model.name == whole.model.name);
  const DataPaths data = shipped_data();
  const auto wrong = read_scenario(data.scenarios / "published/llama3-405b-16k.json", data, {"model.layers=2"});
  REQUIRE_FALSE(wrong.has_value());
  CHECK(to_string(wrong.error()).starts_with("--set: model.layers: unknown key"));
}
