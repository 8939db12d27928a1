// Redundant experts: what they keep and send, and what moving experts to a new placement sends.

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/small_scenario.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// 16 experts of 1024 x 1024 on four ranks of eight.
Scenario with_experts(int zero_stage) {
  Scenario scenario = small_scenario(1, 1, 8);
  scenario.model.moe = MixtureOfExperts{};
  scenario.model.moe->experts = 16;
  scenario.model.moe->topk = 2;
  scenario.model.moe->ffn_hidden = 1024;
  scenario.parallel.ep = 4;
  scenario.parallel.zero_stage = zero_stage;
  scenario.training.expert_placement = ExpertPlacement::rebalanced;
  return scenario;
}

std::int64_t size(const ForecastRun& run, Traffic traffic, Collective collective) {
  return total_of(count_traffic(run.graph, 0), traffic, collective).size.count;
}

/// Of the experts of one rank in 8 layers.
std::int64_t expert_parameters(const Model& model) { return 8LL * 16 / 4 * (model.gated() ? 3 : 2) * 1024 * 1024; }

}  // namespace

TEST_CASE("redundant experts: gradients go to the expert, weights come back", "[oracle][graph][moe]") {
  Scenario scenario = with_experts(1);
  const std::int64_t copies = expert_parameters(scenario.model) / 2;  // 8 for 16 experts
  const ForecastRun plain = run(scenario);
  scenario.training.redundant_experts = 8;
  const ForecastRun copied = run(scenario);
  const auto more = [&](Traffic traffic, Collective collective) {
    return size(copied, traffic, collective) - size(plain, traffic, collective);
  };
  // Two ranks have the same experts: each has half of the reduced gradients of its copies.
  CHECK(more(Traffic::gradients, Collective::reduce_scatter) == 4 * copies);
  CHECK(size(copied, Traffic::gradients, Collective::all_to_all) == 4 * copies / 2);
  CHECK(size(copied, Traffic::parameters, Collective::all_to_all) == 2 * copies / 2);
  CHECK(more(Traffic::parameters, Collective::all_gather) == 2 * copies);
  const MemoryByKind& before = plain.forecast.memory.front();
  const MemoryByKind& after = copied.forecast.memory.front();
  CHECK((after.weights - before.weights).count == 2 * copies);
  CHECK((after.gradients - before.gradients).count == 4 * copies);
  CHECK(after.optimizer == before.optimizer);
}

TEST_CASE("redundant experts without ZeRO: whole gradients", "[oracle][graph][moe]") {
  Scenario scenario = with_experts(0);
  const std::int64_t copies = expert_parameters(scenario.model) / 4;
  const ForecastRun plain = run(scenario);
  scenario.training.redundant_experts = 4;
  const ForecastRun copied = run(scenario);
  CHECK(size(copied, Traffic::gradients, Collective::all_reduce) -
            size(plain, Traffic::gradients, Collective::all_reduce) ==
        4 * copies);
  CHECK(size(copied, Traffic::gradients, Collective::all_to_all) == 4 * copies);
  CHECK(size(copied, Traffic::parameters, Collective::all_to_all) == 2 * copies);
}

TEST_CASE("a new placement moves weights and optimizer states, here in the mean step", "[oracle][graph][moe]") {
  Scenario scenario = with_experts(1);
  const std::int64_t experts = expert_parameters(scenario.model);
  CHECK(size(run(scenario), Traffic::parameters, Collective::all_to_all) == 0);
  scenario.training.expert_rebalance_steps = 16;
  CHECK(size(run(scenario), Traffic::parameters, Collective::all_to_all) == (2 * experts + 12 * experts / 2) / 16);
}

TEST_CASE("a folded step with copies is the step of every rank", "[graph][folding][moe]") {
  Scenario scenario = with_experts(1);
  scenario.training.redundant_experts = 8;
  scenario.training.expert_rebalance_steps = 16;
  const ForecastOptions unfolded{.unfold = true};
  const Result<ForecastRun> all = forecast(scenario, unfolded);
  REQUIRE(all);
  CHECK(run(scenario).timeline.step_time == all->timeline.step_time);
}
