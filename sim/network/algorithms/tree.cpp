/// \file
/// Double binary trees over nodes with chains inside them (double_tree.hpp): all-reduce only.
#include <algorithm>
#include <array>
#include <cmath>

#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

constexpr Triple kBase{6.8, 14.0, 8.4};

void tune(const TunerContext& c, NcclCost& cost) {
  if (!c.is(Collective::all_reduce)) return;
  const NcclGraph& graph = c.comm.tree;
  double bus = std::min(0.92 * c.bus(graph), c.cap(c.limits().tree, graph));
  if (c.protocol == Protocol::ll) bus = std::min(bus / 3.8, c.ll_limit());
  if (c.protocol == Protocol::ll128)
    bus = std::min(bus * (c.comm.nodes == 1 ? 7.0 / 9 : 120.0 / 128), c.cap(c.limits().tree_ll128, graph));
  cost.channels = graph.channels;
  cost.bandwidth = bus * 0.5;
  if (c.comm.pcie) cost.inside = 0.92 * 0.5 * c.comm.ring_inside;  // as in one node
  cost.base_us = kBase[c.p];
  cost.inter_hops = 2 * static_cast<int>(log2_floor(c.comm.nodes));
  const double local = static_cast<double>(c.comm.ranks) / c.comm.nodes;
  cost.intra_hops = 2 * static_cast<int>(local - 1);
  cost.intra_us = 2 * (local - 1) * c.intra(kTreeHop);
  cost.inter_us = cost.inter_hops * c.inter(kTreeHop);
}

/// Factors on the bandwidth of trees at 64 B x 2^i.
constexpr std::array<double, 24> kTreeLl{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                         .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,  1};
constexpr std::array<double, 24> kTreeLl128{1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                            .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1,  1};
constexpr std::array<double, 24> kTreeSimple{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                             .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9};

/// NCCL's table at powers of two, linear in log2 between them.
double bandwidth_factor(const NcclCost& cost, Bytes size) {
  if (size.count < 64) return 1;
  const std::array<double, 24>& table = cost.protocol == Protocol::ll      ? kTreeLl
                                        : cost.protocol == Protocol::ll128 ? kTreeLl128
                                                                           : kTreeSimple;
  const double position = std::log2(static_cast<double>(size.count) / 64);
  const auto below = static_cast<std::size_t>(position);
  if (below >= 23) return 1;
  const double share = position - static_cast<double>(below);
  const double above = below + 1 == 23 ? 1.0 : table[below + 1];
  return table[below] * (1 - share) + above * share;
}

/// Up and down the chain of the node, at a place of its own in each channel.
double through_chains(const GroupPlacement& group) { return 2 - 2.0 / group.ranks_per_node; }

FlowSchedule flows(const CollectiveCall& call, const FlowGroup& group) {
  const Members channels = channels_of(group);
  const Bytes buffer = call.size / (2 * std::int64_t{size32(channels.size())});
  std::vector<Flow> flows;
  for (const std::int32_t rail : channels)
    for (const auto place : {first_tree, second_tree}) {
      const NodeTree tree(group, rail, place);
      tree.add_node_flows(buffer, flows);
      tree.add_chain_flows(buffer, flows);
    }
  return pipeline(flows, group);
}

}  // namespace

constinit const CollectiveAlgorithm kTree{.value = Algorithm::tree,
                                          .tune = tune,
                                          .bandwidth_factor = bandwidth_factor,
                                          .fill_is_missing = false,
                                          .is_tree = true,
                                          .busiest_node = through_trees,
                                          .busiest_gpu = through_chains,
                                          .flows = flows};

}  // namespace tracecast
