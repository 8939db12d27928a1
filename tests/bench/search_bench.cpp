/// The planner's two rates for Llama 3.1 405B: layouts bounded, and layouts simulated at 16 micro-batches each. Items per
/// second are layouts; arguments are threads.

#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "sim/search/planner.hpp"
#include "tests/support/shipped.hpp"

namespace {

using namespace tracecast;

Scenario llama_405b() {
  return shipped_scenario("llama3-405b-16k",
                          {"cluster.topology=dgx-h100", "parallel.dp=0", "training.global_batch_size=2048"});
}

/// From nothing, as `plan` begins: shapes, costs of layers, bounds of time and memory. Layouts that can be laid out; the
/// impossible ones among them are not counted. The argument after the threads: five schedules and six micro-batch sizes
/// in place of plan's own choice.
void bound_layouts(benchmark::State& state) {
  const Scenario scenario = llama_405b();
  SearchSpace space = default_space(scenario, scenario.cluster.world_size);
  if (state.range(1) != 0) {
    space.micro_batch_size = {1, 2, 4, 8, 16, 32};
    space.pp_schedule = {"", "gpipe", "looped-bfs", "zb-h1", "interleaved-zb"};
  }
  std::int64_t bounded = 0;
  for ([[maybe_unused]] const auto _ : state) {
    SearchCounts counts;
    bounded += static_cast<std::int64_t>(bound_all(scenario, space, static_cast<int>(state.range(0)), counts).size());
  }
  state.SetItemsProcessed(bounded);
}

/// 16,384 GPUs, tp 8, pp 16, dp 128, 2,048 sequences: 16 micro-batches. Chunks, recomputation and ZeRO stages differ.
void simulate_layouts(benchmark::State& state) {
  const Scenario scenario = llama_405b();
  SearchSpace space = default_space(scenario, scenario.cluster.world_size);
  space.tp = {8};
  space.pp = {16};
  space.cp = {1};
  space.micro_batch_size = {1};
  SearchCounts counts;
  std::vector<std::pair<Layout, LayoutBound>> layouts;
  for (const BoundedLayout& each : bound_all(scenario, space, 1, counts))
    layouts.emplace_back(space.at(each.id), each.bound);
  const EvaluateRound evaluate_round = evaluate_on_threads(scenario, {.threads = static_cast<int>(state.range(0))});
  std::int64_t simulated = 0;
  for ([[maybe_unused]] const auto _ : state)
    for (const Evaluation& each : evaluate_round(layouts, {})) simulated += each.fits ? 1 : 0;
  state.SetItemsProcessed(simulated);
}

// CPU time is that of all threads.
BENCHMARK(bound_layouts)
    ->ArgsProduct({{1, 2}, {0, 1}})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(simulate_layouts)->Arg(1)->Arg(2)->MeasureProcessCPUTime()->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
