#include "sim/network/algorithms/flow_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tracecast {

// ---- Pipelines -------------------------------------------------------------------------------------------------------

namespace {

/// One round of all edges. What a rank sends to its switch is one flow, whose parts do not compete with each other.
Round streamed(const std::vector<Edge>& edges, const FlowGroup& group) {
  Round round;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> known;
  for (const Edge& edge : edges) {
    const std::int32_t end = std::max(edge.flow.from, edge.flow.to);
    const bool switched = end >= group.ranks() && end < group.network();
    const auto [found, added] = known.try_emplace({edge.flow.from, edge.flow.to}, round.flows.size());
    if (added || !switched)
      round.flows.push_back(edge.flow);
    else
      round.flows[found->second].size += edge.flow.size;
  }
  return round;
}

}  // namespace

FlowSchedule pipeline(const std::vector<Edge>& edges, const FlowGroup& group, std::int64_t segments) {
  if (segments == 0) return {{streamed(edges, group)}};
  std::int64_t depth = 0;
  for (const Edge& edge : edges) depth = std::max<std::int64_t>(depth, edge.distance + 1);
  const auto round_at = [&](std::int64_t now) {
    Round round;
    for (const Edge& edge : edges) {
      if (edge.distance > now || now >= edge.distance + segments) continue;
      round.flows.push_back(edge.flow);
      round.flows.back().size = edge.flow.size / segments;
    }
    return round;
  };
  FlowSchedule schedule;
  const std::int64_t rounds = edges.empty() ? 0 : depth + segments - 1;
  for (std::int64_t now = 0; now < rounds; ++now) {
    Round round = round_at(now);
    if (now == depth - 1 && segments > depth) {  // from here on every edge is busy
      round.count = segments - depth + 1;
      now += round.count - 1;
    }
    schedule.rounds.push_back(std::move(round));
  }
  return schedule;
}

std::int64_t segments_of(Bytes buffer, Pipelining how) {
  if (how == Pipelining::stream) return 0;
  return std::clamp<std::int64_t>(buffer.count / kSegment, 1, kMaxSegments);
}

// ---- Rails and chains --------------------------------------------------------------------------------------------------

std::int32_t member_at_rail(const FlowGroup& group, const Members& node, std::int32_t rail) {
  const auto port = [&](std::int32_t member) { return group.port[static_cast<std::size_t>(member)]; };
  if (rail >= 0) return *std::find_if(node.begin(), node.end(), [&](auto member) { return port(member) == rail; });
  Members at_ports;  // the first member at each port
  for (const std::int32_t member : node)
    if (std::none_of(at_ports.begin(), at_ports.end(), [&](auto known) { return port(known) == port(member); }))
      at_ports.push_back(member);
  return at(at_ports, (-1 - rail) % size32(at_ports.size()));
}

void append_chain_from_rail(const FlowGroup& group, const Members& node, std::int32_t rail, Members& order) {
  const auto begin = order.insert(order.end(), node.begin(), node.end());
  std::rotate(begin, std::find(begin, order.end(), member_at_rail(group, node, rail)), order.end());
}

Members channels_of(const FlowGroup& group) { return group.node_count() == 1 ? Members{-1} : group.rails; }

// ---- Trees -------------------------------------------------------------------------------------------------------------

NodeTree::NodeTree(const FlowGroup& group, std::int32_t rail, TreePlace (*place)(int, int))
    : group_(group), rail_(rail) {
  for (std::int32_t node = 0; node < group.node_count(); ++node) places_.push_back(place(node, group.node_count()));
  for (std::int32_t node = 0; node < group.node_count(); ++node) {
    heights_.push_back(height_of(node));
    depths_.push_back(depth_of(node));
    append_chain_from_rail(group, group.nodes[static_cast<std::size_t>(node)], rail, chains_.emplace_back());
    longest_ = std::max(longest_, size32(chains_.back().size()) - 1);
    height_ = std::max(height_, heights_.back());
  }
}

void NodeTree::add_node_edges(Bytes buffer, std::int32_t first, std::vector<Edge>& edges) const {
  for (std::int32_t node = 0; node < group_.node_count(); ++node) {
    const std::int32_t parent = places_[static_cast<std::size_t>(node)].parent;
    if (parent < 0) continue;
    const std::int32_t down = first + height() + depths_[static_cast<std::size_t>(parent)];
    edges.push_back({first + heights_[static_cast<std::size_t>(node)], {head(node), head(parent), rail_, buffer}});
    edges.push_back({down, {head(parent), head(node), rail_, buffer}});
  }
}

void NodeTree::add_chain_edges(Bytes buffer, std::vector<Edge>& edges) const {
  for (std::int32_t node = 0; node < group_.node_count(); ++node) {
    const Members& chain = chains_[static_cast<std::size_t>(node)];
    const std::int32_t back = longest_ + height() + depths_[static_cast<std::size_t>(node)];
    for (std::int32_t i = 0; i + 1 < size32(chain.size()); ++i) {
      edges.push_back({longest_ - 1 - i, {at(chain, i + 1), at(chain, i), -1, buffer}});
      edges.push_back({back + i, {at(chain, i), at(chain, i + 1), -1, buffer}});
    }
  }
}

std::int32_t NodeTree::height_of(std::int32_t node) const {
  std::int32_t max = 0;
  for (const int child : places_[static_cast<std::size_t>(node)].children) max = std::max(max, 1 + height_of(child));
  return max;
}

std::int32_t NodeTree::depth_of(std::int32_t node) const {
  const std::int32_t parent = places_[static_cast<std::size_t>(node)].parent;
  return parent < 0 ? 0 : 1 + depth_of(parent);
}

// ---- Switches and networks that reduce ---------------------------------------------------------------------------------

void add_switch_edges(const FlowGroup& group, std::int32_t distance, Bytes up, Bytes down, std::vector<Edge>& edges) {
  for (std::int32_t node = 0; node < group.node_count(); ++node)
    for (const std::int32_t member : group.nodes[static_cast<std::size_t>(node)]) {
      edges.push_back({distance, {member, group.switch_of(node), -1, up}});
      edges.push_back({distance, {group.switch_of(node), member, -1, down}});
    }
}

double around_ring(Collective collective, const GroupPlacement& group) {
  return bus_bandwidth(collective, group.ranks, {1}, from_seconds(1));
}

double through_trees(Collective, const GroupPlacement& group) { return std::min(2.0, 0.5 * group.nodes); }

double through_network(Collective, const GroupPlacement&) { return 1; }

FlowSchedule network_reduction_flows(const CollectiveCall& call, const FlowGroup& group, Pipelining how) {
  const bool reduces = call.collective != Collective::all_gather;
  const bool distributes = call.collective != Collective::reduce_scatter;
  const std::int64_t nodes = group.node_count();
  const Bytes slice = call.size / size32(group.rails.size());
  const Bytes own = slice / nodes;  // what a node contributes to a gather, or receives of a scatter
  std::vector<Edge> edges;
  for (const Members& node : group.nodes)
    for (const std::int32_t rail : group.rails) {
      const std::int32_t head = member_at_rail(group, node, rail);
      const Bytes part = own / size32(node.size());
      for (const std::int32_t member : node) {
        if (member == head) continue;
        edges.push_back({0, {member, head, -1, reduces ? slice : part}});
        edges.push_back({3, {head, member, -1, distributes ? slice : part}});
      }
      edges.push_back({1, {head, group.network(), rail, reduces ? slice : own}});
      edges.push_back({2, {group.network(), head, rail, distributes ? slice : own}});
    }
  return pipeline(edges, group, segments_of(slice, how));
}

}  // namespace tracecast
