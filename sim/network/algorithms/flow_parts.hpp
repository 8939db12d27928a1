/// \file
/// What algorithms build their flows from: pipelined edges, rings over the nodes of a group, trees of nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/network/collective_flows.hpp"
#include "sim/network/double_tree.hpp"

namespace tracecast {

using Members = std::vector<std::int32_t>;

inline std::int32_t size32(std::size_t n) { return static_cast<std::int32_t>(n); }
inline std::int32_t at(const Members& members, std::int32_t index) { return members[static_cast<std::size_t>(index)]; }

/// An edge of a pipelined algorithm: moves segment s in round s + distance.
struct Edge {
  std::int32_t distance = 0;
  Flow flow;  ///< with the size of the whole buffer that passes it
};

/// The rounds of `edges` over `segments` segments; 0: one round of all edges.
FlowSchedule pipeline(const std::vector<Edge>& edges, const FlowGroup& group, std::int64_t segments);

/// Number of segments of a buffer; 0 for Pipelining::stream.
std::int64_t segments_of(Bytes buffer, Pipelining how);

/// The member of a node at which a channel of FlowGroup::rails begins.
std::int32_t member_at_rail(const FlowGroup& group, const Members& node, std::int32_t rail);

/// Appends the members of a node in order, beginning with member_at_rail().
void append_chain_from_rail(const FlowGroup& group, const Members& node, std::int32_t rail, Members& order);

/// One channel per rail; inside a node one for all, since a switch has no order.
Members channels_of(const FlowGroup& group);

/// A tree over nodes with a chain inside each, used in both directions.
class NodeTree {
 public:
  NodeTree(const FlowGroup& group, std::int32_t rail, TreePlace (*place)(int, int));

  std::int32_t height() const { return height_; }
  std::int32_t longest_chain() const { return longest_; }
  std::int32_t head(std::int32_t node) const { return chains_[static_cast<std::size_t>(node)].front(); }

  /// Edges between nodes: up to the parent, and down from it, after `first` rounds.
  void add_node_edges(Bytes buffer, std::int32_t first, std::vector<Edge>& edges) const;
  /// Chains inside nodes: first from their ends to the head, at the end back from the head.
  void add_chain_edges(Bytes buffer, std::vector<Edge>& edges) const;

 private:
  std::int32_t height_of(std::int32_t node) const;
  std::int32_t depth_of(std::int32_t node) const;

  const FlowGroup& group_;
  std::int32_t rail_;
  std::vector<TreePlace> places_;
  std::vector<std::int32_t> heights_;  ///< distance to the farthest leaf below
  std::vector<std::int32_t> depths_;
  std::vector<Members> chains_;
  std::int32_t longest_ = 0;  ///< hops inside a node
  std::int32_t height_ = 0;   ///< of the root
};

/// Every member of every node sends `up` to its switch and receives `down` from it (NVLS).
void add_switch_edges(const FlowGroup& group, std::int32_t distance, Bytes up, Bytes down, std::vector<Edge>& edges);

/// CollectiveAlgorithm::busiest_node: what passes a node around a ring; through the double tree (double_tree.hpp), in which a
/// node has up to four neighbours, each for half of the buffer; in reductions by the network.
double around_ring(Collective collective, const GroupPlacement& group);
double through_trees(Collective collective, const GroupPlacement& group);
double through_network(Collective collective, const GroupPlacement& group);

/// Flows of a reduction in the network: heads collect their slice from the members of their node, the network reduces, heads
/// distribute.
FlowSchedule network_reduction_flows(const CollectiveCall& call, const FlowGroup& group, Pipelining how);

}  // namespace tracecast
