/// One step of Llama 3.1 405B in a warm process: building its graph, simulating it, and both; folded and unfolded.
#include <string>

#include <benchmark/benchmark.h>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/builder.hpp"
#include "sim/graph/classes.hpp"
#include "sim/network/network_model.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/support/shipped.hpp"

namespace {

using namespace tracecast;

/// Everything that a step graph is made of.
struct Input {
  Scenario scenario;
  Plan plan;
  Schedule schedule;
  Costs costs;
  std::unique_ptr<NetworkModel> network;

  static Input read(std::int64_t dp, std::int64_t microbatches) {
    Scenario scenario = shipped_scenario(
        "llama3-405b-16k",
        {"cluster.topology=dgx-h100", "cluster.world_size=" + std::to_string(128 * dp),
         "parallel.dp=" + std::to_string(dp), "training.global_batch_size=" + std::to_string(microbatches * dp)});
    Plan plan = make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size).value();
    Schedule schedule =
        make_schedule(plan.parallel.pp_schedule,
                      {.ranks = plan.parallel.pp, .microbatches = plan.num_microbatches, .chunks = plan.parallel.vpp})
            .value();
    Costs costs(scenario.profile);
    auto network = make_analytic_network(scenario.cluster, scenario.profile.architecture);
    return {std::move(scenario), std::move(plan), std::move(schedule), std::move(costs), std::move(network)};
  }

  StepGraph graph(bool unfold) const {
    return build_step_graph({scenario.model, plan, schedule, scenario.cluster, costs, *network},
                            {unfold ? SimulatedRanks::all : SimulatedRanks::classes, &scenario.perturbation});
  }
};

/// Arguments: data-parallel replicas of 128 GPUs, micro-batches.
void folded_step(benchmark::State& state) {
  const Input input = Input::read(state.range(0), state.range(1));
  for ([[maybe_unused]] const auto _ : state) benchmark::DoNotOptimize(simulate(input.graph(false)));
}

void folded_build(benchmark::State& state) {
  const Input input = Input::read(state.range(0), state.range(1));
  for ([[maybe_unused]] const auto _ : state) benchmark::DoNotOptimize(input.graph(false));
}

void folded_simulation(benchmark::State& state) {
  const StepGraph graph = Input::read(state.range(0), state.range(1)).graph(false);
  std::int64_t operations = 0;
  for ([[maybe_unused]] const auto _ : state) operations += simulate(graph).value().events;
  state.SetItemsProcessed(operations);
}

void one_slow_rank(benchmark::State& state) {
  Input input = Input::read(state.range(0), state.range(1));
  input.scenario.perturbation.slow_ranks = {{{37, 37}, 1.3}};
  for ([[maybe_unused]] const auto _ : state) benchmark::DoNotOptimize(simulate(input.graph(false)));
}

/// Links are shared: plan, schedule, graph, classes of ranks and links, and the run.
void folded_fluid_step(benchmark::State& state) {
  const Input input = Input::read(state.range(0), state.range(1));
  for ([[maybe_unused]] const auto _ : state)
    benchmark::DoNotOptimize(forecast(input.scenario, {.network = NetworkKind::fluid}));
}

/// The same when all ranks and links are refined, as a slow rank wants it.
void folded_fluid_slow_rank(benchmark::State& state) {
  Input input = Input::read(state.range(0), state.range(1));
  input.scenario.perturbation.slow_ranks = {{{37, 37}, 1.3}};
  for ([[maybe_unused]] const auto _ : state)
    benchmark::DoNotOptimize(forecast(input.scenario, {.network = NetworkKind::fluid}));
}

/// Every rank at a speed of its own; the third argument is the number of threads.
void unfolded_simulation(benchmark::State& state) {
  Input input = Input::read(state.range(0), state.range(1));
  input.scenario.perturbation.speed_spread = 0.02;
  const StepGraph graph = input.graph(true);
  std::int64_t operations = 0;
  for ([[maybe_unused]] const auto _ : state)
    operations += simulate(graph, {}, {.threads = static_cast<int>(state.range(2))}).value().events;
  state.SetItemsProcessed(operations);
}

/// Ranks on a grid of rows of 8 and columns of 128, `special` of them of a colour of their own.
void refinement(benchmark::State& state) {
  RankRelations relations;
  relations.families.resize(2);
  const auto ranks = static_cast<std::int32_t>(state.range(0));
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    relations.seed.push_back(rank % 1021 == 5 && rank / 1021 < state.range(1) ? 1 + rank : rank / (ranks / 16));
    relations.families[0].group_of.push_back(rank / 8);
    relations.families[1].group_of.push_back(rank / 1024 * 8 + rank % 8);
  }
  relations.families[0].label.assign(static_cast<std::size_t>(ranks / 8), 0);
  relations.families[1].label.assign(static_cast<std::size_t>(ranks / 128), 0);
  for ([[maybe_unused]] const auto _ : state) benchmark::DoNotOptimize(refine(relations));
}

BENCHMARK(folded_step)->Args({128, 16})->Args({128, 256})->Args({512, 16})->Unit(benchmark::kMillisecond);
BENCHMARK(folded_build)->Args({128, 16})->Unit(benchmark::kMillisecond);
BENCHMARK(folded_simulation)->Args({128, 16})->Args({128, 256})->Unit(benchmark::kMillisecond);
BENCHMARK(one_slow_rank)->Args({128, 16})->Unit(benchmark::kMillisecond);
BENCHMARK(folded_fluid_step)
    ->Args({8, 16})
    ->Args({128, 16})
    ->Args({128, 256})
    ->Args({512, 16})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(folded_fluid_slow_rank)->Args({128, 16})->Unit(benchmark::kMillisecond);
BENCHMARK(unfolded_simulation)
    ->Args({8, 16, 1})
    ->Args({128, 16, 1})
    ->Args({128, 16, 2})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK(refinement)->Args({16'384, 0})->Args({16'384, 16})->Args({1'048'576, 16})->Unit(benchmark::kMillisecond);

}  // namespace
