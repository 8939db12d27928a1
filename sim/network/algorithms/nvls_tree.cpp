/// \file
/// NVLS inside nodes, double binary trees between them: all-reduce only.
#include <algorithm>

#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

constexpr HopLatency kHop{{0, 0, 25.0}, {0, 0, 0}, {0, 0, 20.9}};

void tune(const TunerContext& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.nvls;
  if (c.protocol != Protocol::simple || graph.channels < 2 || c.comm.pcie) return;
  if (c.comm.nodes == 1 || !c.is(Collective::all_reduce)) return;
  const double inside = nvls_channel_rate(c);
  double rate = std::min(inside, graph.inter * (c.comm.nodes == 2 ? 2 : 1));
  rate = std::min(rate, c.limits().nvls_tree[nodes_index(c.comm.nodes)]);
  cost.channels = graph.channels;
  cost.bandwidth = graph.channels * rate * c.comm.ranks / c.rounds();
  cost.inside = graph.channels * inside * c.comm.ranks / c.rounds();
  cost.intra_us = c.intra(kHop);
  cost.intra_hops = 1;
  cost.inter_hops = 2 * static_cast<int>(log2_floor(c.comm.nodes));
  cost.inter_us = cost.inter_hops * c.inter(kHop);
}

FlowSchedule flows(const CollectiveCall& call, const FlowGroup& group) {
  const std::int64_t local = size32(group.nodes.front().size());
  const Bytes part = call.size / local;
  const Bytes buffer = call.size / (2 * std::int64_t{size32(group.rails.size())});
  std::vector<Flow> flows;
  add_switch_flows(group, call.size, part, flows);
  for (const std::int32_t rail : group.rails)
    for (const auto place : {first_tree, second_tree}) NodeTree(group, rail, place).add_node_flows(buffer, flows);
  add_switch_flows(group, part, call.size, flows);
  return pipeline(flows, group);
}

}  // namespace

constinit const CollectiveAlgorithm kNvlsTree{.value = Algorithm::nvls_tree,
                                              .tune = tune,
                                              .missing_hardware = needs_nvls,
                                              .domain_bandwidth = &CollectiveTuning::nvls_bandwidth,
                                              .is_tree = true,
                                              .busiest_node = through_trees,
                                              .flows = flows};

}  // namespace tracecast
