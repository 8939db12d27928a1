/// How long steps take at least, and steps that are given up because of that.
#include "sim/engine/time_left.hpp"

#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;

namespace {

Scenario job(int tp, int pp, int dp, int microbatches) {
  Scenario scenario = test::small_scenario(tp, pp, dp);
  scenario.training.global_batch_size = std::int64_t{dp} * microbatches * scenario.training.micro_batch_size;
  scenario.profile.host.step_overhead = scenario.profile.host.step_overhead_per_rank = 0;
  return scenario;
}

std::int64_t shortest(const StepGraph& graph) {
  std::int64_t most = 0;
  for (const std::vector<std::int64_t>& rank : engine::time_left(graph, engine::compile(graph)))
    most = std::max(most, rank.front());
  return most;
}

Timeline run(const ForecastRun& of, const Scenario& scenario, Duration longest) {
  return simulate(of.graph, of.network, {.longest = longest, .slowing_gpu = &scenario.profile}).value();
}

TEST_CASE("time left: a pipeline fills and drains", "[oracle][engine]") {
  // Of F and B a stage and M micro-batches, 1F1B takes (M + P - 1)(F + B). Transfers and hosts take next to nothing here.
  Scenario scenario = job(1, 4, 1, 8);
  scenario.profile.host.launch = 0;
  scenario.model.vocab_size = 128;
  const ForecastRun folded = value_of(forecast(scenario));
  const engine::TimeLeft left = engine::time_left(folded.graph, engine::compile(folded.graph));
  REQUIRE(left.size() == 4);
  for (const std::vector<std::int64_t>& rank : left) {
    CHECK(std::is_sorted(rank.rbegin(), rank.rend()));
    CHECK(rank.back() == 0);
  }
  const auto step = static_cast<double>(folded.timeline.step_time.picoseconds);
  CHECK(static_cast<double>(left[0].front()) > 0.95 * step);
  // The last rank's way begins when the first forward has come through the others.
  CHECK(static_cast<double>(left[3].front()) < 0.95 * static_cast<double>(left[0].front()));
}

/// Random layouts, hosts, networks, and ranks that are slower or faster than the others.
TEST_CASE("time left: no step is shorter, and a step is given up only if it is longer than allowed",
          "[property][engine]") {
  std::mt19937 random(20261129);
  const auto pick = [&](std::initializer_list<int> of) { return of.begin()[random() % of.size()]; };
  int stopped = 0;
  int tight = 0;
  const int jobs = test::cases(120);
  for (int i = 0; i < jobs; ++i) {
    const int pp = pick({1, 2, 4, 4});
    Scenario scenario = job(pick({1, 2, 4}), pp, pick({1, 2, 4}), pp * pick({1, 2, 6, 16}));
    scenario.parallel.zero_stage = pick({0, 1, 2, 3});
    scenario.parallel.overlap_grad_reduce = pick({0, 1}) == 1;
    scenario.parallel.overlap_p2p = pick({0, 1}) == 1;
    scenario.parallel.sequence_parallel = scenario.parallel.tp > 1 && pick({0, 1}) == 1;
    if (pp > 1) {
      const int kind = pick({0, 1, 2, 3});
      scenario.parallel.vpp = kind == 1 ? 2 : 1;
      scenario.parallel.pp_schedule = kind == 1   ? "interleaved-1f1b"
                                      : kind == 2 ? "zb-h1"
                                      : kind == 3 ? "gpipe"
                                                  : "1f1b";
    }
    scenario.profile.host.launch *= pick({0, 0, 1, 10});
    if (pick({0, 1, 2}) == 0) scenario.perturbation.slow_ranks = {{{0, pick({0, 3})}, pick({6, 12}) / 10.0}};
    scenario.cluster.node.nic_rate.bytes_per_second /= pick({1, 4, 16});
    INFO("job " << i);
    const ForecastRun whole = value_of(forecast(scenario, {.unfold = pick({0, 1, 2}) == 0}));
    const Duration step = whole.timeline.step_time;
    CHECK(shortest(whole.graph) <= step.picoseconds);
    const Timeline allowed = run(whole, scenario, step);
    CHECK_FALSE(allowed.given_up);
    CHECK(allowed.step_time == step);
    CHECK(allowed.ranks == whole.timeline.ranks);
    if (const std::int64_t most = shortest(whole.graph); most > 1)  // else all ranks are faster than their programs
      CHECK(run(whole, scenario, {most - 1}).given_up);
    const Timeline less = run(whole, scenario, {step.picoseconds - step.picoseconds / 50});
    if (!less.given_up) CHECK(less.ranks == whole.timeline.ranks);
    stopped += less.given_up ? 1 : 0;
    tight += 10 * shortest(whole.graph) > 9 * step.picoseconds ? 1 : 0;
  }
  CHECK(stopped > jobs / 2);
  CHECK(tight >= jobs / 20);
}

}  // namespace
