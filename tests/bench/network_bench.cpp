/// Sharing links: solves, events of the fluid model, and one collective under each network model in one run.
#include <algorithm>
#include <vector>

#include <benchmark/benchmark.h>

#include "sim/base/random.hpp"
#include "sim/network/flow_cost.hpp"
#include "sim/network/fluid.hpp"
#include "sim/network/max_min.hpp"
#include "tests/network/small_clusters.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::literals;

/// Six random links out of a block, weights 1 to 64.
std::vector<LinkWeight> random_loads(RandomStream& random, std::int32_t first, std::int32_t links) {
  std::vector<LinkWeight> loads;
  while (loads.size() < 6) {
    const auto link = first + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(links)));
    const bool known =
        std::any_of(loads.begin(), loads.end(), [&](const LinkWeight& load) { return load.link == link; });
    if (!known) loads.push_back({link, static_cast<std::int64_t>(1 + random.below(64)) * kWeightOne});
  }
  return loads;
}

/// One flow leaves, another comes, rates are up to date again.
void max_min_event(benchmark::State& state) {
  const auto flows = static_cast<std::int32_t>(state.range(0));
  const auto links = static_cast<std::int32_t>(state.range(1));
  const auto blocks = static_cast<std::int32_t>(state.range(2));
  RandomStream random(1, 0, 0);
  MaxMin solver;
  for (std::int32_t link = 0; link < links; ++link)
    solver.add_link({static_cast<std::int64_t>(10 + random.below(40)) * 1'000'000'000});
  std::vector<std::int32_t> active;
  const auto add = [&](std::int32_t block) {
    const auto loads = random_loads(random, block * (links / blocks), links / blocks);
    active.push_back(solver.add_flow({static_cast<std::int64_t>(20 + random.below(30)) * 1'000'000'000}, loads));
  };
  for (std::int32_t flow = 0; flow < flows; ++flow) add(flow % blocks);
  solver.solve();
  std::size_t next = 0;
  for ([[maybe_unused]] const auto _ : state) {
    solver.remove_flow(active[next]);
    const std::int32_t replaced = active[next];
    add(static_cast<std::int32_t>(next) % blocks);
    active[next] = active.back();
    active.pop_back();
    benchmark::DoNotOptimize(replaced);
    benchmark::DoNotOptimize(solver.solve());
    next = (next + 1) % active.size();
  }
}
BENCHMARK(max_min_event)->Args({50, 200, 1})->Args({50, 200, 5})->Args({50, 200, 25})->Args({1000, 4000, 100});

/// 50 transfers in flight, each begun anew when it ends; an item is an event: a start or an end.
void fluid_event(benchmark::State& state) {
  const auto blocks = static_cast<std::int32_t>(state.range(0));
  const ClusterLinks links(small_cluster(256), "Hopper");
  RandomStream random(2, 0, 0);
  FluidNetwork network(links);
  for (std::int32_t kind = 0; kind < 50; ++kind) {
    TransferShape shape{1_us, {static_cast<std::int64_t>(1 + random.below(9)) * 100'000'000}, 40_GBps, {}};
    for (const LinkWeight& load : random_loads(random, kind % blocks * (200 / blocks), 200 / blocks))
      shape.loads.push_back({load.link, load.weight / 16});
    network.start(kind, network.add_kind(shape), {});
  }
  Duration now;
  std::vector<std::int32_t> ended;
  for ([[maybe_unused]] const auto _ : state) {
    network.advance(now, ended);
    for (const std::int32_t transfer : ended) network.start(transfer, transfer, now);
  }
  state.SetItemsProcessed(network.events());
}
BENCHMARK(fluid_event)->Arg(1)->Arg(5);

/// A collective with its sibling groups under one model; the first argument is the model.
void collective(benchmark::State& state, NetworkKind kind, Collective what, Algorithm algorithm, std::int64_t bytes) {
  const auto ranks = static_cast<int>(state.range(0));
  const Cluster cluster = dgx_h100(ranks);
  const CollectiveCall call{what, {bytes}, algorithm};
  const SiblingCalls calls{call, {range(ranks)}};
  const auto analytic = make_analytic_network(cluster, "Hopper");
  for ([[maybe_unused]] const auto _ : state) {
    if (kind == NetworkKind::isolated) {
      benchmark::DoNotOptimize(analytic->cost(call, place(cluster, calls.groups.front(), 1)));
      continue;
    }
    const auto cost = flow_cost(kind, cluster, "Hopper", calls);
    if (!cost) state.SkipWithError(to_string(cost.error()).c_str());
  }
}
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
BENCHMARK_CAPTURE(collective, analytic_ring, NetworkKind::isolated, Collective::all_reduce, Algorithm::ring, kGiB)
    ->Arg(64)
    ->Arg(1024)
    ->Arg(16384)
    ->Arg(65536)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(collective, fluid_ring, NetworkKind::fluid, Collective::all_reduce, Algorithm::ring, kGiB)
    ->Arg(64)
    ->Arg(1024)
    ->Arg(16384)
    ->Arg(65536)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(collective, fluid_tree, NetworkKind::fluid, Collective::all_reduce, Algorithm::tree, kGiB)
    ->Arg(64)
    ->Arg(1024)
    ->Arg(16384)
    ->Arg(65536)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(collective, simgrid_ring, NetworkKind::simgrid, Collective::all_reduce, Algorithm::ring, kGiB)
    ->Arg(64)
    ->Arg(128)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(1);
BENCHMARK_CAPTURE(collective, simgrid_tree, NetworkKind::simgrid, Collective::all_reduce, Algorithm::tree, kGiB)
    ->Arg(64)
    ->Arg(128)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(1);

}  // namespace
