/// \file
/// What algorithms build their flows from: pipelines, rings over the nodes of a group, trees of nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/network/collective_flows.hpp"
#include "sim/network/double_tree.hpp"

namespace tracecast {

using Members = std::vector<std::int32_t>;

inline std::int32_t size32(std::size_t n) { return static_cast<std::int32_t>(n); }
inline std::int32_t at(const Members& members, std::int32_t index) { return members[static_cast<std::size_t>(index)]; }

/// One round of all flows of a pipelined algorithm, each with the size of the whole buffer that passes it. What a rank sends to its
/// switch is one flow, whose parts do not compete with each other.
FlowSchedule pipeline(const std::vector<Flow>& flows, const FlowGroup& group);

/// Appends the members of a node in order, beginning with the one at which a channel of FlowGroup::rails begins.
void append_chain_from_rail(const FlowGroup& group, const Members& node, std::int32_t rail, Members& order);

/// One channel per rail; inside a node one for all, since a switch has no order.
Members channels_of(const FlowGroup& group);

/// A tree over nodes with a chain inside each, used in both directions.
class NodeTree {
 public:
  NodeTree(const FlowGroup& group, std::int32_t rail, TreePlace (*place)(int, int));

  std::int32_t head(std::int32_t node) const { return chains_[static_cast<std::size_t>(node)].front(); }

  /// Between nodes: up to the parent, and down from it.
  void add_node_flows(Bytes buffer, std::vector<Flow>& flows) const;
  /// Along the chains inside nodes: to the head, and back from it.
  void add_chain_flows(Bytes buffer, std::vector<Flow>& flows) const;

 private:
  const FlowGroup& group_;
  std::int32_t rail_;
  std::vector<TreePlace> places_;
  std::vector<Members> chains_;
};

/// Every member of every node sends `up` to its switch and receives `down` from it (NVLS).
void add_switch_flows(const FlowGroup& group, Bytes up, Bytes down, std::vector<Flow>& flows);

/// CollectiveAlgorithm::busiest_node: what passes a node around a ring, through the double tree (double_tree.hpp), in
/// reductions by the network.
double around_ring(Collective collective, const GroupPlacement& group);
double through_trees(Collective collective, const GroupPlacement& group);
double through_network(Collective collective, const GroupPlacement& group);

/// CollectiveAlgorithm::missing_hardware of reductions by the switch of a node, and by the network.
const char* needs_nvls(const Cluster& cluster, int nodes);
const char* needs_sharp(const Cluster& cluster, int nodes);

/// Flows of a reduction in the network: heads collect their slice from the members of their node, the network reduces, heads
/// distribute.
FlowSchedule network_reduction_flows(const CollectiveCall& call, const FlowGroup& group);

}  // namespace tracecast
