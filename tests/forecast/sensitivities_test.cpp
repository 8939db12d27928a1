/// Derivatives along the critical path against steps that are simulated anew.
#include "sim/forecast/sensitivities.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;

namespace {

ForecastRun run_of(const Scenario& scenario) {
  return value_of(forecast(scenario, {.record_spans = true, .transfers_slow_compute = false}));
}

double step_with(const ForecastRun& run, const CostScales& factors) {
  return seconds(simulate(scaled(run.graph, factors), run.network).value().step_time);
}

double sum(const std::array<double, kCostParameters>& parts) {
  double total = 0;
  for (const double part : parts) total += part;
  return total;
}

}  // namespace

TEST_CASE("the critical path has no gaps: its kinds sum to the step time", "[property][report]") {
  const auto [tp, pp, dp] = GENERATE(table<int, int, int>({{1, 1, 1}, {2, 1, 4}, {1, 4, 2}, {2, 4, 8}}));
  const ForecastRun run = run_of(test::small_scenario(tp, pp, dp));
  const Sensitivities s = sensitivities(run.graph, run.timeline);
  CHECK(sum(s.path_s) == Approx(seconds(run.timeline.step_time)).epsilon(1e-12));
  CHECK(s.step_s == seconds(run.timeline.step_time));
  CHECK(scaled(run.graph, unit_scales()).templates == run.graph.templates);
}

TEST_CASE("a kind's seconds on the critical path are the derivative of the step time", "[differential][report]") {
  const ForecastRun run = run_of(test::small_scenario(2, 4, 8));
  const Sensitivities s = sensitivities(run.graph, run.timeline);
  constexpr double kStep = 1e-4;
  for (std::size_t k = 0; k < kCostParameters; ++k) {
    CAPTURE(to_string(static_cast<CostParameter>(k)));
    CostScales factors = unit_scales();
    factors[k] = 1 + kStep;
    const double slower = step_with(run, factors);
    CHECK((slower - s.step_s) / kStep == Approx(s.path_s[k]).epsilon(0.02).margin(0.01 * s.step_s));
    // Convex: what is found by the path is never more than what a larger change does.
    factors[k] = 1.5;
    CHECK(step_with(run, factors) >= s.step_s + 0.5 * s.path_s[k] - 1e-9);
  }
}

TEST_CASE("slower transfers on shared links: folded and unfolded steps agree", "[differential][report]") {
  Scenario scenario = test::small_scenario(2, 1, 8);
  scenario.parallel.zero_stage = 3;
  scenario.parallel.overlap_grad_reduce = scenario.parallel.overlap_param_gather = true;
  scenario.parallel.separate_gather_group = true;  // beside the reductions
  scenario.cluster.node.nic_rate.bytes_per_second /= 32;
  const ForecastRun folded = *forecast(scenario, {.transfers_slow_compute = false});
  const ForecastRun unfolded = *forecast(scenario, {.unfold = true, .transfers_slow_compute = false});
  CostScales factors = unit_scales();
  CHECK(step_with(folded, factors) == seconds(folded.timeline.step_time));
  const double factor = GENERATE(0.5, 1.25, 2.0);
  for (std::size_t k = static_cast<std::size_t>(CostParameter::tensor_parallel); k < kCostParameters; ++k)
    factors[k] = factor;
  // Rates are whole bytes per second.
  if (factor > 1) CHECK(step_with(folded, factors) == Approx(step_with(unfolded, factors)).epsilon(1e-6));
  // The wires carry the same bytes at the same rate, so transfers that are faster alone gain little here, slower ones lose.
  const double change = step_with(folded, factors) / seconds(folded.timeline.step_time);
  CHECK(change > (factor < 1 ? 0.9 : 1.02));
  CHECK(change < std::max(1.0, factor));
}

TEST_CASE("the deviation of a run has half the spread of kernels and host and all of transfers", "[oracle][report]") {
  Sensitivities s;
  s.step_s = 100;
  s.spread_s[static_cast<std::size_t>(CostParameter::gemm)] = 6;
  s.spread_s[static_cast<std::size_t>(CostParameter::host)] = 8;
  CHECK(s.run_deviation() == Approx(0.05));  // half of (6, 8)'s 10
  s.spread_s[static_cast<std::size_t>(CostParameter::tensor_parallel)] = 12;
  CHECK(s.run_deviation() == Approx(0.13));  // 5 and 12
  s.spread_s = {};
  s.spread_s[static_cast<std::size_t>(CostParameter::data_parallel)] = 7;
  CHECK(s.run_deviation() == Approx(0.07));
}

TEST_CASE("the deviation from sensitivities matches Monte Carlo", "[differential][report]") {
  const ForecastRun run = run_of(test::small_scenario(2, 4, 8));
  const Sensitivities s = sensitivities(run.graph, run.timeline);
  // Every kind's factor is drawn on its own, with the deviation that the path's costs have on average.
  std::array<double, kCostParameters> deviation{};
  for (std::size_t k = 0; k < kCostParameters; ++k)
    if (s.path_s[k] > 0) deviation[k] = 0.3 * s.spread_s[k] / s.path_s[k];
  RandomStream random(1, 0, 0);
  const auto normal = [&random] {
    constexpr double kPi = 3.14159265358979323846;
    return std::sqrt(2 * random.exponential()) * std::cos(2 * kPi * random.uniform());
  };
  constexpr int kDraws = 1000;
  double mean = 0, square = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    CostScales factors = unit_scales();
    for (std::size_t k = 0; k < kCostParameters; ++k) factors[k] = std::exp(deviation[k] * normal());
    const double step = step_with(run, factors);
    mean += step / kDraws;
    square += step * step / kDraws;
  }
  // Errors of one kind go together, those of different kinds are independent.
  double variance = 0;
  for (const double own : s.spread_s) variance += own * own;
  const double expected = 0.3 * std::sqrt(variance) / s.step_s;
  CHECK(std::sqrt(square - mean * mean) / mean == Approx(expected).epsilon(0.12));
}
