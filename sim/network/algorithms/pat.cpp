/// \file
/// PAT, parallel aggregated trees: all-gather and reduce-scatter with one rank per node.
#include <algorithm>
#include <utility>

#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

constexpr Triple kBase{8.0, 8.0, 8.0};
constexpr HopLatency kHop{{0, 0, 4.0}, {0, 0, 4.0}, {0, 0, 14.0}};

void tune(const TunerContext& c, NcclCost& cost) {
  if (c.protocol != Protocol::simple || !c.gathers() || c.comm.ranks_per_node != 1 || c.comm.nodes == 1) return;
  const NcclGraph& graph = c.comm.ring;
  cost.channels = graph.channels;
  cost.bandwidth = 0.75 * c.bus(graph) * c.comm.ranks / c.rounds();
  cost.base_us = kBase[c.p];
  cost.intra_us = 2.8 * c.comm.ranks;
  cost.inter_hops = static_cast<int>(log2_floor(c.comm.nodes));
  cost.inter_us = cost.inter_hops * c.inter(kHop) / 3.5;
}

bool is_automatic(const NcclCommunicator& communicator) { return communicator.pat; }

/// Distances from the farthest to the nearest: each rank forwards what it has received so far. Reduce-scatter in reverse.
FlowSchedule flows(const CollectiveCall& call, const FlowGroup& group) {
  const std::int32_t n = group.ranks();
  const Bytes share = call.size / n;
  std::int32_t distance = 1;
  while (2 * distance < n) distance *= 2;
  FlowSchedule schedule;
  for (; distance > 0; distance /= 2) {
    const std::int64_t blocks = (n - distance + 2 * distance - 1) / (2 * distance);
    Round round;
    for (std::int32_t rank = 0; rank < n; ++rank)
      round.flows.push_back({rank, (rank + distance) % n, -1, share * blocks});
    schedule.rounds.push_back(std::move(round));
  }
  if (call.collective == Collective::reduce_scatter) std::reverse(schedule.rounds.begin(), schedule.rounds.end());
  return schedule;
}

}  // namespace

constinit const CollectiveAlgorithm kPat{
    .value = Algorithm::pat, .tune = tune, .is_automatic = is_automatic, .busiest_node = around_ring, .flows = flows};

}  // namespace tracecast
