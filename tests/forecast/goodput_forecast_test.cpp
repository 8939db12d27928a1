#include "sim/forecast/goodput_forecast.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/base/units.hpp"
#include "sim/forecast/engine_step_times.hpp"
#include "sim/report/goodput_report.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

GoodputRequest request_of(const std::string& scenario, const std::vector<std::string>& set = {},
                          const std::vector<std::string>& failures = {}) {
  GoodputRequest request;
  request.scenario = shipped_scenario(scenario, set);
  request.failures = read_failure_file(source_dir() / "scenarios/failures/llama3-54-days.json", failures).value();
  request.find_best_interval = false;
  request.options.min_histories = request.options.max_histories = 64;
  request.options.threads = 2;
  return request;
}

}  // namespace

TEST_CASE("goodput: a job that does not fit says so, unless its step is measured", "[goodput][forecast]") {
  GoodputRequest request = request_of("llama3-405b-1024", {"parallel.zero_stage=0"});
  request.options.min_histories = request.options.max_histories = 2;
  const GoodputForecast large = value_of(forecast_goodput(request));
  CHECK_FALSE(large.fits_memory());
  CHECK(goodput_page(large, {}).find("does not fit: the peak is 118.0 of 79.6 GiB") != std::string::npos);
  CHECK(sweep_page("parallel.zero_stage", {{"0", large}}, {}).find("! 0: does not fit") != std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(goodput_json(large));
  CHECK(json["memory"]["fits"] == false);
  CHECK(schema_violations(source_dir() / "docs/schema/goodput.schema.json", goodput_json(large)).empty());

  request.step_time_s = 26;
  CHECK(value_of(forecast_goodput(request)).fits_memory());
  const GoodputForecast fits = value_of(forecast_goodput(request_of("llama3-405b-1024")));
  CHECK(fits.fits_memory());
  CHECK(goodput_page(fits, {}).find("does not fit") == std::string::npos);
}

TEST_CASE("goodput: no job ends before the healthy machine would", "[goodput][forecast]") {
  GoodputRequest request = request_of("llama2-7b-abci");
  request.step_time_s = 11;
  request.goal_tokens = 100'000'000'000;
  SECTION("histories that end at the goal: P10 and P90 are theirs") {
    request.failures.course.target_tokens = request.goal_tokens;
    const GoodputForecast r = value_of(forecast_goodput(request));
    CHECK(r.goal_days == Approx(r.goodput.wall_s.mean / kSecondsPerDay));
    std::vector<double> walls = r.goodput.walls_s;
    std::ranges::sort(walls);
    CHECK(r.goal_days_p10 * kSecondsPerDay == Approx(walls[6]).epsilon(1e-3));
    CHECK(r.goal_days_p90 * kSecondsPerDay == Approx(walls[57]).epsilon(1e-3));
  }
  SECTION("longer histories, which scatter less than so short a job") {}
  const GoodputForecast r = value_of(forecast_goodput(request));
  const double healthy_days = 1e11 / r.tokens_per_s() / kSecondsPerDay;
  CHECK(r.goal_days_p10 >= healthy_days);
  CHECK(r.goal_days_p90 >= r.goal_days_p10);
  CHECK(r.goal_days_p90 < 1.2 * healthy_days);
}

TEST_CASE("goodput: a peer's copy of a checkpoint needs a second node", "[goodput][forecast]") {
  const auto tiers = [](int gpus) {
    GoodputRequest request =
        request_of("llama2-7b-abci", {"cluster.world_size=" + std::to_string(gpus)}, {"checkpoint.mode=tiered"});
    request.options.min_histories = request.options.max_histories = 2;
    return value_of(forecast_goodput(request)).spec.checkpoint.tiers;
  };
  CHECK(tiers(8).size() == 2);
  CHECK(tiers(16).size() == 3);
}

TEST_CASE("goodput: a replica leaves or rejoins as fast as a hot spare, unless the file says how fast",
          "[goodput][forecast]") {
  const auto forecast_with = [](std::vector<std::string> failures) {
    failures.emplace_back("recovery.elastic=shrink-batch");
    return value_of(forecast_goodput(request_of("llama3-405b-16k", {}, failures)));
  };
  const GoodputForecast assumed = forecast_with({});
  const double hot_s = seconds(restart_time(assumed.spec.recovery, assumed.machine, SpareState::hot));
  CHECK(hot_s > 40);
  CHECK(seconds(assumed.spec.recovery.reconfigure) == hot_s);
  CHECK(assumed.closed_goodput == 0);  // that of restarts
  const std::string page = goodput_page(assumed, {.width = 300});
  CHECK(page.find("a replica leaves or rejoins in 47.9 s (communicators and warm-up)") != std::string::npos);
  CHECK(page.find("after a crash that stops the whole job") != std::string::npos);
  CHECK(nlohmann::json::parse(goodput_json(assumed))["checkpoint"]["closed_form_goodput"].is_null());

  const GoodputForecast given = forecast_with({"recovery.reconfigure=0 s"});
  CHECK(seconds(given.spec.recovery.reconfigure) == 0);
  CHECK(goodput_page(given, {.width = 300}).find("rejoins in 0 s (recovery.reconfigure)") != std::string::npos);
  CHECK(given.goodput.goodput.mean > assumed.goodput.goodput.mean + 0.003);
}

TEST_CASE("goodput --json: null for what is not known", "[goodput][forecast]") {
  GoodputRequest request = request_of("llama2-7b-abci", {}, {"checkpoint.mode=off", "run.target_tokens=1e9"});
  request.goal_tokens = 1'000'000'000;
  const nlohmann::json json = nlohmann::json::parse(goodput_json(value_of(forecast_goodput(request))));
  for (const char* key : {"young_s", "daly_s", "optimal_s", "closed_form_goodput"})
    CHECK(json["checkpoint"][key].is_null());
  CHECK(json["to_finish"]["usd"].is_null());
}

TEST_CASE("steps of a degraded machine: a slow GPU among fewer replicas", "[goodput][forecast]") {
  SECTION("is that of the smaller layout") {
    const std::vector<std::string> small{"cluster.world_size=2048", "parallel.dp=16", "training.global_batch_size=256"};
    const std::vector<std::string> less{"cluster.world_size=1920", "parallel.dp=15", "training.global_batch_size=240"};
    const StepTime lost = EngineStepTimes(shipped_scenario("llama3-405b-16k", small))
                              .of({.lost_replicas = 1, .gpu_speed_percent = 80})
                              .value();
    CHECK(lost == EngineStepTimes(shipped_scenario("llama3-405b-16k", less)).of({.gpu_speed_percent = 80}).value());
  }
  SECTION("takes one simulation, although 127 replicas have 2,032 classes of ranks") {
    const EngineStepTimes steps(shipped_scenario("llama3-405b-16k"), true);
    const Duration healthy = steps.of({.lost_replicas = 1}).value().time;
    const Duration slow = steps.of({.lost_replicas = 1, .gpu_speed_percent = 80}).value().time;
    CHECK(slow > healthy);
    CHECK(seconds(slow) < seconds(healthy) / 0.8);
  }
}

TEST_CASE("steps of a degraded machine: a batch of the ramp that the layout refuses names the ramp",
          "[goodput][forecast]") {
  const Result<StepTime> step = EngineStepTimes(shipped_scenario("llama3-405b-16k")).of({.global_batch = 3});
  REQUIRE_FALSE(step);
  CHECK(to_string(step.error()) ==
        "run.batch_ramp: global_batch = 3: is not a multiple of micro_batch_size 1 x dp 128 = 128 (nearest: 128)");
  GoodputRequest request =
      request_of("llama3-405b-16k", {}, {"run.batch_ramp=[{\"from_tokens\": 0, \"global_batch\": 3}]"});
  CHECK(to_string(forecast_goodput(request).error()).starts_with("--set: run.batch_ramp: global_batch = 3: is not"));
  request.failures.ramp_file = "f.json";
  request.failures.ramp_line = 9;
  CHECK(to_string(forecast_goodput(request).error()).starts_with("f.json:9: run.batch_ramp: global_batch = 3: is not"));
}

TEST_CASE("goodput --sweep: the table has what differs, and leaves out what a narrow terminal has no room for",
          "[goodput][report]") {
  const auto point = [](const std::string& repair) {
    GoodputRequest request = request_of("llama3-405b-16k", {}, {"recovery.repair=" + repair});
    request.options.min_histories = request.options.max_histories = 8;
    request.goal_tokens = 1'000'000'000'000;
    request.price_per_gpu_hour = 2;
    return SweepPoint{repair, value_of(forecast_goodput(request))};
  };
  const std::vector<SweepPoint> points{point("12 h"), point("48 h")};
  const std::string wide = sweep_page("a.key.that.is.longer.than.sixteen", points, {.width = 120});
  for (const char* word : {"a.key.that.is.longer.than.sixteen", "tokens/s", "days", "USD", "spares", "step", "lost"})
    CHECK(wide.find(word) != std::string::npos);
  CHECK(points[0].report.spec.recovery.spares < points[1].report.spec.recovery.spares);
  CHECK(wide.find("spares: enough for 99.9 % of the time") != std::string::npos);
  const std::string narrow = sweep_page("repair", points, {.width = 50});
  CHECK(narrow.find("tokens/s") != std::string::npos);
  CHECK(narrow.find("not shown: ") != std::string::npos);
  CHECK(wide.find("not shown") == std::string::npos);
}

TEST_CASE("goodput: histories that are too short for another length are made long enough, if that is asked for",
          "[goodput][forecast]") {
  GoodputRequest request = request_of("llama2-7b-abci", {}, {"checkpoint.interval=5 d"});
  request.days = 30;
  request.goal_tokens = 1'000'000'000'000;
  const GoodputForecast short_ones = value_of(forecast_goodput(request));
  CHECK(short_ones.goal_days == 0);
  CHECK(short_ones.why_no_goal() == "a history has fewer than ten checkpoint intervals");
  request.lengthen_histories = true;
  const GoodputForecast enough = value_of(forecast_goodput(request));
  CHECK(enough.goal_days > 0);
  CHECK(seconds(enough.spec.horizon) == Approx(50 * kSecondsPerDay).epsilon(1e-3));
  // Those that are long enough stay as they are; without checkpoints no length is.
  request.failures = request_of("llama2-7b-abci").failures;
  CHECK(seconds(value_of(forecast_goodput(request)).spec.horizon) == Approx(30 * kSecondsPerDay));
  request.failures = request_of("llama2-7b-abci", {}, {"checkpoint.mode=off"}).failures;
  CHECK(value_of(forecast_goodput(request)).goal_days == 0);
}
