/// \file
/// CollNet chain: reduction in the network (SHARP), chains inside nodes; all-reduce only.
#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

constexpr HopLatency kHop{{0, 0, 2.8}, {0, 0, 2.8}, {0, 0, 30.0}};

void tune(const TunerContext& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.collnet;
  if (c.protocol != Protocol::simple || graph.channels == 0 || c.comm.nodes == 1 || !c.is(Collective::all_reduce))
    return;
  cost.channels = graph.channels;
  cost.bandwidth = graph.channels * graph.intra * 0.5;
  cost.intra_hops = 2 * (c.comm.ranks_per_node - 1);
  cost.intra_us = cost.intra_hops * c.intra(kHop);
  cost.inter_hops = 1;
  cost.inter_us = c.inter(kHop);
}

FlowSchedule flows(const CollectiveCall& call, const FlowGroup& group) {
  const Bytes slice = call.size / size32(group.rails.size());
  std::vector<Flow> flows;
  for (const std::int32_t rail : group.rails) {
    const NodeTree chains(group, rail, [](int, int) { return TreePlace{}; });
    for (std::int32_t node = 0; node < group.node_count(); ++node) {
      flows.push_back({chains.head(node), group.network(), rail, slice});
      flows.push_back({group.network(), chains.head(node), rail, slice});
    }
    chains.add_chain_flows(slice, flows);
  }
  return pipeline(flows, group);
}

}  // namespace

constinit const CollectiveAlgorithm kCollnetChain{.value = Algorithm::collnet_chain,
                                                  .tune = tune,
                                                  .missing_hardware = needs_sharp,
                                                  .busiest_node = through_network,
                                                  .flows = flows};

}  // namespace tracecast
