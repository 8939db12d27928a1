/// \file
/// Rings: every rank passes its part of the buffer to the next rank, once per round.
#include <algorithm>

#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

constexpr Triple kBase{6.6, 14.0, 8.4};
constexpr HopLatency kHop{{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}};

void tune(const TunerContext& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.ring;
  double bus = c.bus(graph);
  if (c.protocol == Protocol::ll) bus = std::min(c.ll_limit(), 0.5 * bus);
  if (c.protocol == Protocol::ll128) bus = std::min(0.92 * bus, c.cap(c.limits().ring_ll128, graph));
  cost.channels = graph.channels;
  cost.bandwidth = bus * c.comm.ranks / c.rounds();
  cost.inside = c.comm.ring_inside * c.comm.ranks / c.rounds();
  cost.base_us = kBase[c.p];
  if (c.is(Collective::broadcast)) {  // pipelined: one hop counts
    (c.comm.nodes > 1 ? cost.inter_us : cost.intra_us) = c.comm.nodes > 1 ? c.inter(kHop) : c.intra(kHop);
    (c.comm.nodes > 1 ? cost.inter_hops : cost.intra_hops) = 1;
    return;
  }
  cost.inter_hops = c.comm.nodes == 1 ? 0 : (c.is(Collective::all_reduce) ? 2 : 1) * (c.comm.nodes - 1);
  cost.intra_hops = c.rounds() - cost.inter_hops;
  cost.intra_us = cost.intra_hops * std::max(c.intra(kHop), c.overhead());
  cost.inter_us = cost.inter_hops * c.inter(kHop);
}

/// NCCL's factor for large all-reduces over the network.
double latency_factor(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective, Bytes size) {
  const bool large = cost.protocol == Protocol::simple && communicator.nodes > 1 &&
                     collective == Collective::all_reduce &&
                     size.count / (static_cast<std::int64_t>(cost.channels) * communicator.ranks) >= 64;
  if (!large) return 1;
  return communicator.architecture == NcclArchitecture::volta ? 1.9 : 1.4;
}

/// The ring of one channel: members in order, each node entered by the member next to the rail.
Members ring_order(const FlowGroup& group, std::int32_t rail) {
  Members order;
  order.reserve(group.global.size());
  for (const Members& node : group.nodes) append_chain_from_rail(group, node, rail, order);
  return order;
}

/// `rounds` rounds in which every rank passes 1/ranks of its channel's buffer to the next one.
FlowSchedule ring_rounds(Bytes size, const FlowGroup& group, std::int64_t rounds) {
  const Members channels = channels_of(group);
  const Bytes share = size / (std::int64_t{size32(channels.size())} * group.ranks());
  FlowSchedule schedule{{{{}, rounds}}};
  std::vector<Flow>& flows = schedule.rounds.front().flows;
  flows.reserve(channels.size() * group.global.size());
  for (const std::int32_t rail : channels) {
    const Members order = ring_order(group, rail);
    for (std::int32_t i = 0; i < group.ranks(); ++i)
      flows.push_back({at(order, i), at(order, (i + 1) % group.ranks()), rail, share});
  }
  return schedule;
}

/// From member 0 along the ring, pipelined.
FlowSchedule ring_broadcast(Bytes size, const FlowGroup& group) {
  const Members channels = channels_of(group);
  const Bytes buffer = size / size32(channels.size());
  std::vector<Flow> flows;
  for (const std::int32_t rail : channels) {
    Members order = ring_order(group, rail);
    std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
    for (std::int32_t i = 0; i + 1 < group.ranks(); ++i)
      flows.push_back({at(order, i), at(order, i + 1), rail, buffer});
  }
  return pipeline(flows, group);
}

FlowSchedule flows(const CollectiveCall& call, const FlowGroup& group) {
  if (call.collective == Collective::broadcast) return ring_broadcast(call.size, group);
  return ring_rounds(call.size, group,
                     std::int64_t{call.collective == Collective::all_reduce ? 2 : 1} * (group.ranks() - 1));
}

}  // namespace

constinit const CollectiveAlgorithm kRing{.value = Algorithm::ring,
                                          .tune = tune,
                                          .latency_factor = latency_factor,
                                          .is_ring = true,
                                          .busiest_node = around_ring,
                                          .flows = flows};

}  // namespace tracecast
