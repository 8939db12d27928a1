// Local SGD: replicas that train apart and average their parameters every few steps.
#include "sim/forecast/averaging.hpp"

#include <catch2/catch.hpp>

#include "sim/report/terminal.hpp"
#include "sim/search/bound.hpp"
#include "tests/graph/small_scenario.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Scenario averaging(int tp, int dp, int period) {
  Scenario scenario = small_scenario(tp, 1, dp);
  scenario.parallel.data_parallel = DataParallelKind::parameter_averaging;
  scenario.parallel.averaging_period = period;
  return scenario;
}

Forecast of(const Scenario& scenario, const ForecastOptions& options = {}) {
  Result<ForecastRun> run = forecast(scenario, options);
  if (!run) FAIL(to_string(run.error()));
  return run->forecast;
}

std::string error_of(const std::vector<std::string>& overrides) {
  const Result<ForecastRun> run = forecast(shipped_scenario("data-parallel-gpt2", overrides));
  REQUIRE_FALSE(run);
  return to_string(run.error());
}

}  // namespace

TEST_CASE("parameter averaging: a period's mean step is (H-1) local ones and one that averages, over H",
          "[requirements][forecast][oracle]") {
  const double local = of(averaging(1, 4, 0)).step_time_s;
  const Forecast every = of(averaging(1, 4, 1));
  CHECK(every.step_time_s > local);
  for (const int period : {1, 2, 10, 500}) {
    CAPTURE(period);
    const Forecast f = of(averaging(1, 4, period));
    CHECK(f.step_time_s == Approx(((period - 1) * local + every.step_time_s) / period).epsilon(1e-12));
    CHECK(f.averaging->local_step_s == local);
    CHECK(f.averaging->averaging_step_s == every.step_time_s);
    CHECK(f.averaging->replicas == 4);
    CHECK(f.tokens_per_s == Approx(f.tokens_per_step / f.step_time_s));
    CHECK(f.mfu * f.step_time_s == Approx(every.mfu * every.step_time_s));
    // Compute, waits, host and optimizer are still the whole step.
    double sum = f.host_s + f.optimizer_s + f.bubble_fraction * f.step_time_s;
    for (const auto& [kind, time_s] : f.compute_s) sum += time_s;
    for (const double exposed : f.exposed_s) sum += exposed;
    CHECK(sum == Approx(f.step_time_s));
  }
  // The bubble's seconds are the same mean.
  const auto bubble_s = [](int period) {
    Scenario scenario = small_scenario(1, 2, 4);
    scenario.parallel.data_parallel = DataParallelKind::parameter_averaging;
    scenario.parallel.averaging_period = period;
    const Forecast f = of(scenario);
    CHECK(f.bubble_fraction > 0.05);
    return f.bubble_fraction * f.step_time_s;
  };
  CHECK(bubble_s(10) == Approx((9 * bubble_s(0) + bubble_s(1)) / 10));
}

TEST_CASE("parameter averaging: no gradients between replicas, 2 (R-1)/R of the fp32 parameters to average",
          "[requirements][forecast][oracle]") {
  const Scenario scenario = averaging(1, 4, 8);
  const ForecastRun run = forecast(scenario).value();
  const std::vector<TrafficCount> counts = count_traffic(run.graph, 0);
  CHECK(total_of(counts, Traffic::gradients, Collective::all_reduce).calls == 0);
  const double parameters = 4.0 * static_cast<double>(parameter_count(scenario.model).total());
  CHECK(run.forecast.averaging->sent_bytes == Approx(2 * 0.75 * parameters));
  REQUIRE(run.forecast.bandwidth.size() == 1);
  CHECK(run.forecast.bandwidth.front().sent_bytes == Approx(2 * 0.75 * parameters / 8));
  // bf16 parameters without an fp32 copy are half of that.
  Scenario narrow = scenario;
  narrow.training.master_weights = false;
  CHECK(of(narrow).averaging->sent_bytes == Approx(2 * 0.75 * parameters / 2));
}

TEST_CASE("parameter averaging: a step apart is the step of one replica alone", "[requirements][forecast][oracle]") {
  const int tp = GENERATE(1, 2);
  Scenario one = small_scenario(tp, 1, 1);
  Scenario apart = averaging(tp, 4, 0);
  // What a step costs for each rank of the job is not of the replica.
  one.profile.host.step_overhead_per_rank = apart.profile.host.step_overhead_per_rank = 0;
  one.training.global_batch_size = apart.training.global_batch_size / 4;
  CHECK(of(apart).step_time_s == of(one).step_time_s);
  CHECK(of(apart).memory == of(one).memory);
  CHECK(of(apart, {.unfold = true}).step_time_s == of(apart).step_time_s);
  CHECK(of(averaging(tp, 4, 3), {.unfold = true}).step_time_s == of(averaging(tp, 4, 3)).step_time_s);
}

TEST_CASE("parameter averaging: the ranks of a shard group reduce gradients in every step, groups average their shards",
          "[requirements][forecast]") {
  Scenario scenario = averaging(1, 16, 10);
  scenario.parallel.zero_stage = 1;
  scenario.parallel.shard_group = 8;
  scenario.training.global_batch_size = 16;
  const ForecastRun run = forecast(scenario).value();
  double gradients = 0;
  for (const TrafficCount& each : count_traffic(run.graph, 0)) {
    if (each.traffic == Traffic::gradients) gradients += each.sent;
    if (each.traffic == Traffic::gradients) CHECK(each.nodes == 1);  // inside the node only
  }
  const double all = 4.0 * static_cast<double>(parameter_count(scenario.model).total());
  CHECK(gradients == Approx(7.0 / 8 * all).epsilon(1e-5));
  CHECK(run.forecast.averaging->replicas == 2);
  CHECK(run.forecast.averaging->sent_bytes == Approx(2 * 0.5 * all / 8).epsilon(1e-5));
}

TEST_CASE("parameter averaging: a search's bound is never above the step", "[requirements][forecast][search]") {
  const Scenario scenario = averaging(1, 4, 100);
  Layout layout;
  layout.tp = layout.pp = 1;
  layout.micro_batch_size = 1;
  const std::optional<LayoutBound> bound = BoundTable(scenario).bound(layout);
  REQUIRE(bound);
  CHECK(seconds(bound->step_time) > 0);
  CHECK(seconds(bound->step_time) <= of(scenario).step_time_s);
}

TEST_CASE("parameter averaging: what it cannot be", "[requirements][forecast][error]") {
  const std::string mode = "parallel.data_parallel=parameter_averaging";
  CHECK(error_of({"parallel.averaging_period=5"})
            .find("parallel.averaging_period = 5: needs parallel.data_parallel = parameter_averaging") !=
        std::string::npos);
  CHECK(error_of({mode, "parallel.zero_stage=1"})
            .find("parallel.zero_stage = 1: divides one copy over all ranks, which leaves nothing to average "
                  "(allowed: 0, or a smaller parallel.shard_group)") != std::string::npos);
  CHECK(error_of({mode, "parallel.dp=2", "parallel.cp=2"}).find("needs cp and ep 1") != std::string::npos);
}

TEST_CASE("parameter averaging: the page says period, times and bytes, and claims no loss", "[requirements][report]") {
  const Scenario scenario = averaging(1, 4, 50);
  const ForecastRun run = forecast(scenario).value();
  const std::string page = terminal_page(scenario, run.plan, run.forecast, {.width = 110});
  CHECK(page.find("every 50 steps over 4 replicas:") != std::string::npos);
  CHECK(page.find("the loss is not forecast") != std::string::npos);
}
