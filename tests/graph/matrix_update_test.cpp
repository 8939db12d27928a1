#include "sim/graph/matrix_update.hpp"

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/small_scenario.hpp"
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

/// Sum of `what` over the operators of one name in the step of rank 0.
template <class What>
auto sum_over(const StepGraph& graph, const std::string& name, What what) {
  decltype(what(Operator{})) sum = 0;
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(graph.ranks.front().program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::compute || op.payload < 0) continue;
      const Operator& of = graph.operators[static_cast<std::size_t>(op.payload)].op;
      if (of.name == name) sum += what(of);
    }
  return sum;
}

double flops_of(const StepGraph& graph, const std::string& name) {
  return sum_over(graph, name, [](const Operator& op) { return static_cast<double>(flops(op).count); });
}

std::int64_t elements_of(const StepGraph& graph, const std::string& name) {
  return sum_over(graph, name, [](const Operator& op) { return std::get<ElementwiseShape>(op.shape).elements; });
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
  CHECK(flops_of(run(scenario).graph, "newton_schulz") == Approx(whole_model(scenario.model, 5)));
  scenario.training.muon_steps = 8;
  CHECK(flops_of(run(scenario).graph, "newton_schulz") == Approx(whole_model(scenario.model, 8)));
  scenario.training.muon_steps = 5;
  scenario.parallel.zero_stage = 1;  // whole matrices on ranks: 8 layers on 8 ranks
  CHECK(flops_of(run(scenario).graph, "newton_schulz") == Approx(whole_model(scenario.model, 5) / 8));
  scenario.training.matrix_sharding = MatrixSharding::gather;
  CHECK(flops_of(run(scenario).graph, "newton_schulz") == Approx(whole_model(scenario.model, 5)));
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
      held_elements(optimizer_matrices(scenario.model, layerwise.plan, layerwise.plan.stages.front()), false);
  scenario.training.matrix_sharding = MatrixSharding::gather;
  const ForecastRun gathered = run(scenario);
  CHECK(total(gathered, Traffic::gradients, Collective::all_gather).size == Bytes{2 * matrices});
  scenario.training.matrix_sharding = MatrixSharding::all_to_all;
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
  scenario.training.matrix_sharding = MatrixSharding::gather;
  const ForecastRun gathered = run(scenario);
  const std::int64_t all = parameter_count(scenario.model).total();
  const std::int64_t matrices =
      held_elements(optimizer_matrices(scenario.model, gathered.plan, gathered.plan.stages.front()), false);
  CHECK(elements_of(gathered.graph, "update") == all / 8);
  CHECK(elements_of(gathered.graph, "momentum") == matrices / 8);
  CHECK(elements_of(gathered.graph, "normalise") == matrices);  // every rank works on all
  scenario.training.matrix_sharding = MatrixSharding::layerwise;
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
  CHECK(flops_of(blockwise.graph, "newton_schulz") < flops_of(distributed.graph, "newton_schulz"));
  CHECK(flops_of(distributed.graph, "newton_schulz") < flops_of(duplicated.graph, "newton_schulz"));
}

TEST_CASE("a folded step with Muon is the step of every rank", "[graph][folding][muon]") {
  Scenario scenario = muon_scenario(2, 2, 4, 1);
  for (const MatrixSharding sharding :
       {MatrixSharding::layerwise, MatrixSharding::gather, MatrixSharding::all_to_all}) {
    scenario.training.matrix_sharding = sharding;
    scenario.training.muon_tensor = MuonTensorMode::distributed;
    const ForecastOptions unfolded{.unfold = true};
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

namespace {

Scenario scenario_with(OptimizerKind kind, int tp, int pp, int dp, int zero_stage) {
  Scenario scenario = muon_scenario(tp, pp, dp, zero_stage);
  scenario.training.optimizer = kind;
  return scenario;
}

/// Sides of the matrices of the small model's layer.
std::vector<std::pair<double, double>> sides(const Model& m) {
  const auto h = static_cast<double>(m.hidden_size);
  const auto kv = static_cast<double>(m.num_query_groups * m.head_dim);
  const auto f = static_cast<double>(m.ffn_hidden_size);
  std::vector<std::pair<double, double>> out{{h, h}, {h, h}, {kv, h}, {kv, h}, {h, f}, {h, f}};
  if (m.gated()) out.emplace_back(h, f);
  return out;
}

}  // namespace

TEST_CASE("Shampoo takes 4 rc (r + c) FLOPs a step, SOAP 8, and factorisations a part of theirs",
          "[oracle][graph][optimizer]") {
  Scenario scenario = scenario_with(OptimizerKind::shampoo, 1, 1, 8, 0);
  double products = 0;
  double cubes = 0;
  for (const auto& [r, c] : sides(scenario.model)) {
    products += 8 * 2 * r * c * (r + c);  // of 8 layers
    cubes += 8 * (r * r * r + c * c * c);
  }
  ForecastRun shampoo = run(scenario);
  CHECK(flops_of(shampoo.graph, "statistics") == Approx(products));
  CHECK(flops_of(shampoo.graph, "precondition") == Approx(products));
  CHECK(flops_of(shampoo.graph, "inverse_root") == Approx(20.0 / 3 * cubes / 100));
  scenario.training.optimizer = OptimizerKind::soap;
  scenario.training.preconditioner_interval = 5;
  const ForecastRun soap = run(scenario);
  CHECK(flops_of(soap.graph, "statistics") == Approx(products));
  CHECK(flops_of(soap.graph, "precondition") == Approx(3 * products));
  CHECK(flops_of(soap.graph, "eigenbasis") == Approx(14.0 / 3 * cubes / 5));
  scenario.training.preconditioner_block = 1024;  // without the long side of the feed-forward's
  CHECK(flops_of(run(scenario).graph, "eigenbasis") < 0.1 * flops_of(soap.graph, "eigenbasis"));
}

TEST_CASE("a longer interval leaves the factorisations a smaller part of the mean step", "[metamorphic][optimizer]") {
  Scenario scenario = scenario_with(OptimizerKind::soap, 1, 1, 8, 0);
  const auto optimizer_s = [&](int interval) {
    scenario.training.preconditioner_interval = interval;
    return run(scenario).forecast.optimizer_s;
  };
  // a + b / interval: three steps on one line.
  const double each = optimizer_s(1);
  const double tenth = optimizer_s(10);
  CHECK(each > 2 * tenth);
  CHECK(optimizer_s(5) == Approx(tenth + (each - tenth) * (0.2 - 0.1) / 0.9).epsilon(1e-3));
}

TEST_CASE("what Shampoo and Muon send when the updates of dealt matrices are gathered", "[oracle][graph][optimizer]") {
  for (const auto& [kind, width] : {std::pair{OptimizerKind::shampoo, 4}, std::pair{OptimizerKind::muon, 2}}) {
    Scenario scenario = scenario_with(kind, 1, 1, 8, 0);
    const ForecastRun replicated = run(scenario);
    const std::int64_t matrices =
        held_elements(optimizer_matrices(scenario.model, replicated.plan, replicated.plan.stages.front()), false);
    CHECK(total(replicated, Traffic::parameters, Collective::all_gather).calls == 0);
    scenario.training.matrix_sharding = MatrixSharding::gather_updates;
    const ForecastRun dealt = run(scenario);
    CHECK(total(dealt, Traffic::parameters, Collective::all_gather).size == Bytes{width * matrices});
    CHECK(total(dealt, Traffic::gradients, Collective::all_reduce).size ==
          total(replicated, Traffic::gradients, Collective::all_reduce).size);
    CHECK(elements_of(dealt.graph, "momentum") == matrices / 8);  // 8 layers on 8 ranks
    CHECK(elements_of(dealt.graph, "update") == parameter_count(scenario.model).total());
    CHECK(dealt.forecast.optimizer_s < replicated.forecast.optimizer_s);
  }
}

TEST_CASE("what Shampoo and SOAP send beside Adam under ZeRO", "[oracle][graph][optimizer]") {
  Scenario scenario = scenario_with(OptimizerKind::soap, 1, 1, 8, 1);
  Scenario with_adam = scenario;
  with_adam.training.optimizer = OptimizerKind::adam;
  const auto sent = [](const ForecastRun& each) {
    double sum = 0;
    for (const TrafficCount& count : count_traffic(each.graph, 0)) sum += count.sent;
    return sum;
  };
  const ForecastRun layerwise = run(scenario);
  CHECK(sent(layerwise) == Approx(sent(run(with_adam))));
  const std::int64_t matrices =
      held_elements(optimizer_matrices(scenario.model, layerwise.plan, layerwise.plan.stages.front()), false);
  scenario.training.matrix_sharding = MatrixSharding::all_to_all;
  const ForecastRun exchanged = run(scenario);
  CHECK(total(exchanged, Traffic::gradients, Collective::all_to_all).size == Bytes{4 * matrices / 8});
  CHECK(total(exchanged, Traffic::parameters, Collective::all_to_all).size == Bytes{4 * matrices / 8});
  scenario.training.matrix_sharding = MatrixSharding::gather;
  const ForecastRun gathered = run(scenario);
  CHECK(total(gathered, Traffic::gradients, Collective::all_gather).size == Bytes{4 * matrices});
  CHECK(elements_of(gathered.graph, "adam") == matrices);
  CHECK(elements_of(gathered.graph, "update") == parameter_count(scenario.model).total() / 8);
}

TEST_CASE("Adafactor updates every parameter once and adds up sums of divided matrices", "[oracle][graph][optimizer]") {
  Scenario scenario = scenario_with(OptimizerKind::adafactor, 1, 1, 8, 0);
  const ForecastRun whole = run(scenario);
  CHECK(elements_of(whole.graph, "update") == parameter_count(scenario.model).total());
  CHECK(total(whole, Traffic::control, Collective::all_reduce).calls == 1);  // the gradient norm
  scenario.parallel.zero_stage = 3;
  const ForecastRun divided = run(scenario);
  CHECK(elements_of(divided.graph, "update") == parameter_count(scenario.model).total() / 8);
  // Of 8 layers and two tables: a call for the sums, one for the norm of the update.
  const auto matrices = static_cast<std::int64_t>(8 * sides(scenario.model).size() + 2);
  const TrafficCount control = total(divided, Traffic::control, Collective::all_reduce);
  CHECK(control.calls == 1 + 2 * matrices);
  double numbers = 2 * (1024 + 1024) + static_cast<double>(matrices);
  for (const auto& [r, c] : sides(scenario.model)) numbers += 8 * (r + c);
  CHECK(static_cast<double>(control.size.count) == Approx(4 * numbers + 8));
}

TEST_CASE("a folded step with Shampoo, SOAP and Adafactor is the step of every rank", "[graph][folding][optimizer]") {
  for (const auto& [kind, zero_stage] : {std::pair{OptimizerKind::shampoo, 1}, std::pair{OptimizerKind::soap, 0},
                                         std::pair{OptimizerKind::adafactor, 1}}) {
    Scenario scenario = scenario_with(kind, 2, 2, 4, zero_stage);
    if (kind == OptimizerKind::soap) scenario.training.matrix_sharding = MatrixSharding::gather_updates;
    const ForecastOptions unfolded{.unfold = true};
    const Result<ForecastRun> all = forecast(scenario, unfolded);
    REQUIRE(all);
    CHECK(run(scenario).timeline.step_time == all->timeline.step_time);
  }
}
