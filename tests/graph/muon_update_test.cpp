#include "sim/graph/muon_update.hpp"

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/graph/small_scenario.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using tracecast::test::run;
using tracecast::test::small_scenario;
using tracecast::test::total_of;

namespace {

Scenario muon_scenario(int tp, int pp, int dp, int zero_stage) {
  Scenario scenario = small_scenario(tp, pp, dp);
  scenario.parallel.zero_stage = zero_stage;
  scenario.training.optimizer = OptimizerKind::muon;
  return scenario;
}

/// FLOPs of Newton-Schulz iterations in the step of rank 0.
double newton_schulz(const StepGraph& graph) {
  double sum = 0;
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(graph.ranks.front().program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::compute || op.payload < 0) continue;
      const Operator& of = graph.operators[static_cast<std::size_t>(op.payload)].op;
      if (of.name == "newton_schulz") sum += static_cast<double>(flops(of).count);
    }
  return sum;
}

/// Elements that the optimizer's operators of one name work on, on rank 0.
std::int64_t elements_of(const StepGraph& graph, const std::string& name) {
  std::int64_t sum = 0;
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(graph.ranks.front().program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::compute || op.payload < 0) continue;
      const Operator& of = graph.operators[static_cast<std::size_t>(op.payload)].op;
      if (of.name == name) sum += std::get<ElementwiseShape>(of.shape).elements;
    }
  return sum;
}

double closed_form(double r, double c, int steps) { return steps * (4 * r * r * c + 2 * r * r * r); }

/// All seven matrices of 8 layers.
double whole_model(const Model& m, int steps) {
  const auto h = static_cast<double>(m.hidden_size);
  const auto kv = static_cast<double>(m.num_query_groups * m.head_dim);
  const auto f = static_cast<double>(m.ffn_hidden_size);
  const double mlp = (m.gated() ? 3 : 2) * closed_form(h, f, steps);
  return m.num_layers * (2 * closed_form(h, h, steps) + 2 * closed_form(kv, h, steps) + mlp);
}

TrafficCount total(const ForecastRun& run, Traffic traffic, Collective collective) {
  return total_of(count_traffic(run.graph, 0), traffic, collective);
}

}  // namespace

TEST_CASE("Newton-Schulz takes 4 r^2 c + 2 r^3 FLOPs an iteration and matrix", "[oracle][graph][muon]") {
  Scenario scenario = muon_scenario(1, 1, 8, 0);
  CHECK(newton_schulz(run(scenario).graph) == Approx(whole_model(scenario.model, 5)));
  scenario.training.muon_steps = 8;
  CHECK(newton_schulz(run(scenario).graph) == Approx(whole_model(scenario.model, 8)));
  scenario.training.muon_steps = 5;
  scenario.parallel.zero_stage = 1;  // dealt out: 8 layers on 8 ranks
  CHECK(newton_schulz(run(scenario).graph) == Approx(whole_model(scenario.model, 5) / 8));
  scenario.training.muon_sharding = MuonSharding::gather;
  CHECK(newton_schulz(run(scenario).graph) == Approx(whole_model(scenario.model, 5)));
}

TEST_CASE("what Muon sends: nothing when matrices are dealt out, all of them gathered, or there and back",
          "[oracle][graph][muon]") {
  Scenario scenario = muon_scenario(1, 1, 8, 1);
  Scenario with_adam = scenario;
  with_adam.training.optimizer = OptimizerKind::adam;
  const ForecastRun adam = run(with_adam);
  const ForecastRun layerwise = run(scenario);
  const auto sent = [](const ForecastRun& each) {
    double sum = 0;
    for (const TrafficCount& count : count_traffic(each.graph, 0)) sum += count.sent;
    return sum;
  };
  CHECK(sent(layerwise) == Approx(sent(adam)));
  const std::int64_t matrices =
      held_elements(muon_matrices(scenario.model, layerwise.plan, layerwise.plan.stages.front()), false);
  scenario.training.muon_sharding = MuonSharding::gather;
  const ForecastRun gathered = run(scenario);
  CHECK(total(gathered, Traffic::gradients, Collective::all_gather).size == Bytes{2 * matrices});
  scenario.training.muon_sharding = MuonSharding::all_to_all;
  const ForecastRun exchanged = run(scenario);
  CHECK(total(exchanged, Traffic::gradients, Collective::all_to_all).size == Bytes{2 * matrices / 8});
  CHECK(total(exchanged, Traffic::parameters, Collective::all_to_all).size == Bytes{2 * matrices / 8});
  CHECK(adam.forecast.optimizer_s < layerwise.forecast.optimizer_s);
  CHECK(layerwise.forecast.step_time_s < exchanged.forecast.step_time_s);
  CHECK(exchanged.forecast.step_time_s < gathered.forecast.step_time_s);
}

TEST_CASE("Muon and Adam together update every parameter once, a rank those whose states it holds",
          "[oracle][graph][muon]") {
  Scenario scenario = muon_scenario(1, 1, 8, 1);
  scenario.training.muon_sharding = MuonSharding::gather;
  const ForecastRun gathered = run(scenario);
  const std::int64_t all = parameter_count(scenario.model).total();
  const std::int64_t matrices =
      held_elements(muon_matrices(scenario.model, gathered.plan, gathered.plan.stages.front()), false);
  CHECK(elements_of(gathered.graph, "update") == all / 8);
  CHECK(elements_of(gathered.graph, "momentum") == matrices / 8);
  CHECK(elements_of(gathered.graph, "normalise") == matrices);  // every rank works on all
  scenario.training.muon_sharding = MuonSharding::layerwise;
  const ForecastRun layerwise = run(scenario);
  CHECK(elements_of(layerwise.graph, "update") == all / 8);  // 8 layers on 8 ranks
  CHECK(elements_of(layerwise.graph, "normalise") == matrices / 8);
}

TEST_CASE("Muon over tensor ranks: gathers of matrices, or sums of their products", "[oracle][graph][muon]") {
  Scenario scenario = muon_scenario(2, 1, 4, 1);
  const auto of = [&](MuonTensorMode mode) {
    scenario.training.muon_tensor = mode;
    return run(scenario);
  };
  const ForecastRun blockwise = of(MuonTensorMode::blockwise);
  const ForecastRun duplicated = of(MuonTensorMode::duplicated);
  const ForecastRun distributed = of(MuonTensorMode::distributed);
  const auto calls = [](const ForecastRun& each, Collective what) {
    return total(each, Traffic::tensor_parallel, what).calls;
  };
  const std::int64_t matrices = (scenario.model.gated() ? 7 : 6) * 2;  // of two layers
  CHECK(calls(duplicated, Collective::all_gather) - calls(blockwise, Collective::all_gather) == matrices);
  CHECK(calls(distributed, Collective::all_reduce) - calls(blockwise, Collective::all_reduce) == 5 * matrices);
  CHECK(newton_schulz(blockwise.graph) < newton_schulz(distributed.graph));
  CHECK(newton_schulz(distributed.graph) < newton_schulz(duplicated.graph));
}

TEST_CASE("a folded step with Muon is the step of every rank", "[graph][folding][muon]") {
  Scenario scenario = muon_scenario(2, 2, 4, 1);
  for (const MuonSharding sharding : {MuonSharding::layerwise, MuonSharding::gather, MuonSharding::all_to_all}) {
    scenario.training.muon_sharding = sharding;
    scenario.training.muon_tensor = MuonTensorMode::distributed;
    ForecastOptions unfolded;
    unfolded.unfold = true;
    const Result<ForecastRun> all = forecast(scenario, unfolded);
    REQUIRE(all);
    CHECK(run(scenario).timeline.step_time == all->timeline.step_time);
  }
}

TEST_CASE("the time of Muon's multiplications is the optimizer's, once", "[forecast][muon]") {
  const Scenario scenario = muon_scenario(1, 1, 8, 0);
  Scenario with_adam = scenario;
  with_adam.training.optimizer = OptimizerKind::adam;
  const Forecast muon = run(scenario).forecast;
  const Forecast adam = run(with_adam).forecast;
  CHECK(muon.compute_s.at("gemm") == Approx(adam.compute_s.at("gemm")));
  CHECK(muon.optimizer_s > 2 * adam.optimizer_s);
}
