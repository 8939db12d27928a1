/// \file
/// NVLS: the switch of a node multicasts and reduces; between nodes with reduction in the network (SHARP).
#include <algorithm>

#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

constexpr HopLatency kHop{{0, 0, 25.0}, {0, 0, 0}, {0, 0, 18.0}};

void tune(const TunerContext& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.nvls;
  if (c.protocol != Protocol::simple || graph.channels < 2 || c.comm.pcie) return;
  if (c.comm.nodes > 1 && c.comm.collnet.channels == 0) return;
  if (!c.is(Collective::all_reduce) && !c.gathers()) return;
  const double inside = nvls_channel_rate(c);
  const double rate = c.comm.nodes > 1 ? std::min(inside, graph.inter) : inside;
  cost.channels = graph.channels;
  cost.bandwidth = graph.channels * rate * c.comm.ranks / c.rounds();
  if (c.comm.nodes > 1) cost.inside = graph.channels * inside * c.comm.ranks / c.rounds();
  cost.intra_us = c.intra(kHop);
  cost.intra_hops = 1;
  cost.inter_hops = c.comm.nodes == 1 ? 0 : 1;
  cost.inter_us = cost.inter_hops * c.inter(kHop);
}

const char* missing_hardware(const Cluster& cluster, int nodes) {
  if (const char* missing = needs_nvls(cluster, nodes)) return missing;
  const bool reduces = nodes == 1 || cluster.tuning.sharp;
  return reduces ? nullptr : "a network that reduces (SHARP) if there are several nodes; nvls_tree does not";
}

/// Reduces by reading through the switch, distributes by writing through it. Each rank handles its part of the buffer.
FlowSchedule node_flows(const CollectiveCall& call, const FlowGroup& group) {
  const std::int64_t local = size32(group.nodes.front().size());
  const Bytes part = call.size / local;
  std::vector<Flow> flows;
  if (call.collective != Collective::all_gather) add_switch_flows(group, call.size, part, flows);
  if (call.collective != Collective::reduce_scatter) add_switch_flows(group, part, call.size, flows);
  return pipeline(flows, group);
}

FlowSchedule flows(const CollectiveCall& call, const FlowGroup& group) {
  return group.node_count() == 1 ? node_flows(call, group) : network_reduction_flows(call, group);
}

}  // namespace

constinit const CollectiveAlgorithm kNvls{.value = Algorithm::nvls,
                                          .tune = tune,
                                          .missing_hardware = missing_hardware,
                                          .domain_bandwidth = &CollectiveTuning::nvls_bandwidth,
                                          .busiest_node = through_network,
                                          .flows = flows};

}  // namespace tracecast
