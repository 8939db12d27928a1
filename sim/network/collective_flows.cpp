#include "sim/network/collective_flows.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/network/double_tree.hpp"

namespace tracecast {
namespace {

using Members = std::vector<std::int32_t>;

std::int32_t size32(std::size_t n) { return static_cast<std::int32_t>(n); }
std::int32_t at(const Members& members, std::int32_t index) { return members[static_cast<std::size_t>(index)]; }

// ---- Pipelines -------------------------------------------------------------------------------------------------------

/// An edge of a pipelined algorithm: moves segment s in round s + distance.
struct Edge {
  std::int32_t distance = 0;
  Flow flow;  ///< with the size of the whole buffer that passes it
};

/// All edges at once. What a rank has to send to its switch is one flow, whose parts do not compete with each other.
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

/// Runs `edges` over `segments` segments; 0: all at once.
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
    if (now == depth - 1 && segments > depth) {  // from now on every edge is busy
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

// ---- Rings -----------------------------------------------------------------------------------------------------------

/// The ring of one channel: members in order, each node entered by the member next to the rail.
Members ring_order(const FlowGroup& group, std::int32_t rail) {
  Members order;
  for (const Members& node : group.nodes) {
    const auto entry = std::find_if(node.begin(), node.end(), [&](std::int32_t member) {
      return rail < 0 || group.port[static_cast<std::size_t>(member)] == rail;
    });
    order.insert(order.end(), entry, node.end());
    order.insert(order.end(), node.begin(), entry);
  }
  return order;
}

/// One channel per rail; inside a node one for all, since a switch knows no order.
Members channels_of(const FlowGroup& group) { return group.node_count() == 1 ? Members{-1} : group.rails; }

/// `rounds` rounds in which every rank passes 1/ranks of its channel's buffer to the next one.
FlowSchedule ring_rounds(Bytes size, const FlowGroup& group, std::int64_t rounds) {
  const Members channels = channels_of(group);
  const Bytes share = size / (std::int64_t{size32(channels.size())} * group.ranks());
  Round round{{}, rounds};
  for (const std::int32_t rail : channels) {
    const Members order = ring_order(group, rail);
    for (std::int32_t i = 0; i < group.ranks(); ++i)
      round.flows.push_back({at(order, i), at(order, (i + 1) % group.ranks()), rail, share});
  }
  return {{round}};
}

/// From member 0 along the ring, pipelined.
FlowSchedule ring_broadcast(Bytes size, const FlowGroup& group, Pipelining how) {
  const Members channels = channels_of(group);
  const Bytes buffer = size / size32(channels.size());
  std::vector<Edge> edges;
  for (const std::int32_t rail : channels) {
    Members order = ring_order(group, rail);
    std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
    for (std::int32_t i = 0; i + 1 < group.ranks(); ++i)
      edges.push_back({i, {at(order, i), at(order, i + 1), rail, buffer}});
  }
  return pipeline(edges, group, segments_of(buffer, how));
}

// ---- Trees -----------------------------------------------------------------------------------------------------------

/// A tree over nodes with a chain inside each, both ways.
class NodeTree {
 public:
  NodeTree(const FlowGroup& group, std::int32_t rail, TreePlace (*place)(int, int)) : group_(group), rail_(rail) {
    for (std::int32_t node = 0; node < group.node_count(); ++node) places_.push_back(place(node, group.node_count()));
    for (std::int32_t node = 0; node < group.node_count(); ++node) {
      heights_.push_back(height(node));
      depths_.push_back(depth(node));
      chains_.push_back(chain(node));
      longest_ = std::max(longest_, size32(chains_.back().size()) - 1);
      top_ = std::max(top_, heights_.back());
    }
  }

  std::int32_t top() const { return top_; }
  std::int32_t longest_chain() const { return longest_; }

  /// Edges between nodes: up to the parent, and down from it, after `first` rounds.
  void add_node_edges(Bytes buffer, std::int32_t first, std::vector<Edge>& edges) const {
    for (std::int32_t node = 0; node < group_.node_count(); ++node) {
      const std::int32_t parent = places_[static_cast<std::size_t>(node)].parent;
      if (parent < 0) continue;
      const std::int32_t down = first + top() + depths_[static_cast<std::size_t>(parent)];
      edges.push_back({first + heights_[static_cast<std::size_t>(node)], {head(node), head(parent), rail_, buffer}});
      edges.push_back({down, {head(parent), head(node), rail_, buffer}});
    }
  }

  /// Chains inside nodes: from their ends to the head first, from the head at last.
  void add_chain_edges(Bytes buffer, std::vector<Edge>& edges) const {
    for (std::int32_t node = 0; node < group_.node_count(); ++node) {
      const Members& chain = chains_[static_cast<std::size_t>(node)];
      const std::int32_t back = longest_ + top() + depths_[static_cast<std::size_t>(node)];
      for (std::int32_t i = 0; i + 1 < size32(chain.size()); ++i) {
        edges.push_back({longest_ - 1 - i, {at(chain, i + 1), at(chain, i), -1, buffer}});
        edges.push_back({back + i, {at(chain, i), at(chain, i + 1), -1, buffer}});
      }
    }
  }

  std::int32_t head(std::int32_t node) const { return chains_[static_cast<std::size_t>(node)].front(); }

 private:
  /// Members of a node from the one next to the rail on.
  Members chain(std::int32_t node) const {
    Members chain = group_.nodes[static_cast<std::size_t>(node)];
    const auto first = std::find_if(chain.begin(), chain.end(), [&](std::int32_t member) {
      return rail_ < 0 || group_.port[static_cast<std::size_t>(member)] == rail_;
    });
    std::rotate(chain.begin(), first, chain.end());
    return chain;
  }
  std::int32_t height(std::int32_t node) const {
    std::int32_t most = 0;
    for (const int child : places_[static_cast<std::size_t>(node)].children) most = std::max(most, 1 + height(child));
    return most;
  }
  std::int32_t depth(std::int32_t node) const {
    const std::int32_t parent = places_[static_cast<std::size_t>(node)].parent;
    return parent < 0 ? 0 : 1 + depth(parent);
  }

  const FlowGroup& group_;
  std::int32_t rail_;
  std::vector<TreePlace> places_;
  std::vector<std::int32_t> heights_;  ///< to the farthest leaf below
  std::vector<std::int32_t> depths_;
  std::vector<Members> chains_;
  std::int32_t longest_ = 0;  ///< hops inside a node
  std::int32_t top_ = 0;      ///< height of the root
};

FlowSchedule tree_all_reduce(Bytes size, const FlowGroup& group, Pipelining how) {
  const Members channels = channels_of(group);
  const Bytes buffer = size / (2 * std::int64_t{size32(channels.size())});
  std::vector<Edge> edges;
  for (const std::int32_t rail : channels)
    for (const auto place : {first_tree, second_tree}) {
      const NodeTree tree(group, rail, place);
      tree.add_node_edges(buffer, tree.longest_chain(), edges);
      tree.add_chain_edges(buffer, edges);
    }
  return pipeline(edges, group, segments_of(buffer, how));
}

// ---- NVLS: the switch of a node multicasts and reduces ---------------------------------------------------------------

/// Every member of every node sends `up` to its switch and gets `down` from it.
void add_switch_edges(const FlowGroup& group, std::int32_t distance, Bytes up, Bytes down, std::vector<Edge>& edges) {
  for (std::int32_t node = 0; node < group.node_count(); ++node)
    for (const std::int32_t member : group.nodes[static_cast<std::size_t>(node)]) {
      edges.push_back({distance, {member, group.switch_of(node), -1, up}});
      edges.push_back({distance, {group.switch_of(node), member, -1, down}});
    }
}

/// Reduced by reading through the switch, spread by writing through it; each rank has its part of the buffer in hand.
FlowSchedule nvls(const CollectiveCall& call, const FlowGroup& group, Pipelining how) {
  const std::int64_t local = size32(group.nodes.front().size());
  const Bytes part = call.size / local;
  std::vector<Edge> edges;
  if (call.collective != Collective::all_gather) add_switch_edges(group, 0, call.size, part, edges);
  if (call.collective != Collective::reduce_scatter)
    add_switch_edges(group, call.collective == Collective::all_gather ? 0 : 1, part, call.size, edges);
  return pipeline(edges, group, segments_of(call.size, how));
}

FlowSchedule nvls_tree(Bytes size, const FlowGroup& group, Pipelining how) {
  const std::int64_t local = size32(group.nodes.front().size());
  const Bytes part = size / local;
  const Bytes buffer = size / (2 * std::int64_t{size32(group.rails.size())});
  std::vector<Edge> edges;
  add_switch_edges(group, 0, size, part, edges);
  std::int32_t last = 1;
  for (const std::int32_t rail : group.rails)
    for (const auto place : {first_tree, second_tree}) {
      const NodeTree tree(group, rail, place);
      tree.add_node_edges(buffer, 1, edges);
      last = std::max(last, 1 + 2 * tree.top());
    }
  add_switch_edges(group, last, part, size, edges);
  return pipeline(edges, group, segments_of(buffer, how));
}

// ---- Reduction in the network (SHARP) --------------------------------------------------------------------------------

std::int32_t head_of(const FlowGroup& group, const Members& node, std::int32_t rail) {
  const auto found = std::find_if(node.begin(), node.end(), [&](std::int32_t member) {
    return rail < 0 || group.port[static_cast<std::size_t>(member)] == rail;
  });
  return *found;
}

/// Heads collect their slice from the members of their node, the network adds up, heads hand out.
FlowSchedule collnet_direct(const CollectiveCall& call, const FlowGroup& group, Pipelining how) {
  const bool reduces = call.collective != Collective::all_gather;
  const bool spreads = call.collective != Collective::reduce_scatter;
  const std::int64_t nodes = group.node_count();
  const Bytes slice = call.size / size32(group.rails.size());
  const Bytes own = slice / nodes;  // what a node adds to a gather, or gets of a scatter
  std::vector<Edge> edges;
  for (const Members& node : group.nodes)
    for (const std::int32_t rail : group.rails) {
      const std::int32_t head = head_of(group, node, rail);
      const Bytes part = own / size32(node.size());
      for (const std::int32_t member : node) {
        if (member == head) continue;
        edges.push_back({0, {member, head, -1, reduces ? slice : part}});
        edges.push_back({3, {head, member, -1, spreads ? slice : part}});
      }
      edges.push_back({1, {head, group.network(), rail, reduces ? slice : own}});
      edges.push_back({2, {group.network(), head, rail, spreads ? slice : own}});
    }
  return pipeline(edges, group, segments_of(slice, how));
}

FlowSchedule collnet_chain(Bytes size, const FlowGroup& group, Pipelining how) {
  const Bytes slice = size / size32(group.rails.size());
  std::vector<Edge> edges;
  for (const std::int32_t rail : group.rails) {
    const NodeTree chains(group, rail, [](int, int) { return TreePlace{}; });
    const std::int32_t longest = chains.longest_chain();
    for (std::int32_t node = 0; node < group.node_count(); ++node) {
      edges.push_back({longest, {chains.head(node), group.network(), rail, slice}});
      edges.push_back({longest + 1, {group.network(), chains.head(node), rail, slice}});
    }
    std::vector<Edge> inside;
    chains.add_chain_edges(slice, inside);
    for (Edge& edge : inside) {
      if (edge.distance >= longest) edge.distance += 2;
      edges.push_back(edge);
    }
  }
  return pipeline(edges, group, segments_of(slice, how));
}

// ---- Logarithmic algorithms ------------------------------------------------------------------------------------------

/// PAT: distances from the farthest to the nearest, each rank passing on what it has got so far; reduce-scatter backwards.
FlowSchedule pat(const CollectiveCall& call, const FlowGroup& group) {
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

// ---- Point-to-point --------------------------------------------------------------------------------------------------

Round shifted(const FlowGroup& group, std::int32_t shift, Bytes size) {
  Round round;
  for (std::int32_t rank = 0; rank < group.ranks(); ++rank)
    round.flows.push_back({rank, (rank + shift) % group.ranks(), -1, size});
  return round;
}

/// Every member to the one `nodes` nodes and `places` places further.
void add_shifted(const FlowGroup& group, std::int32_t nodes, std::int32_t places, Bytes size, Round& round) {
  for (std::int32_t node = 0; node < group.node_count(); ++node) {
    const Members& from = group.nodes[static_cast<std::size_t>(node)];
    const Members& to = group.nodes[static_cast<std::size_t>((node + nodes) % group.node_count())];
    const std::int32_t local = size32(from.size());
    for (std::int32_t i = 0; i < local; ++i) {
      const std::int32_t target = at(to, (i + places) % local);
      const std::int32_t rail = nodes == 0 ? -1 : group.port[static_cast<std::size_t>(target)];
      round.flows.push_back({at(from, i), target, rail, size});
    }
  }
}

/// To every other rank in turn. Rounds inside nodes go along with rounds between nodes, which use other links.
FlowSchedule direct_all_to_all(Bytes size, const FlowGroup& group) {
  const Bytes share = size / group.ranks();
  FlowSchedule schedule;
  if (!group.even()) {
    for (std::int32_t shift = 1; shift < group.ranks(); ++shift)
      schedule.rounds.push_back(shifted(group, shift, share));
    return schedule;
  }
  const std::int32_t local = size32(group.nodes.front().size());
  const std::int32_t outside = (group.node_count() - 1) * local;
  for (std::int32_t i = 0; i < std::max(outside, local - 1); ++i) {
    Round round;
    if (i < outside) add_shifted(group, 1 + i / local, i % local, share, round);
    if (i < local - 1) add_shifted(group, 0, 1 + i, share, round);
    schedule.rounds.push_back(std::move(round));
  }
  return schedule;
}

}  // namespace

// ---- Groups ----------------------------------------------------------------------------------------------------------

bool FlowGroup::even() const {
  return std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.size() == nodes.front().size(); });
}

FlowGroup make_flow_group(const ClusterLinks& links, std::span<const int> ranks) {
  FlowGroup group;
  group.global.assign(ranks.begin(), ranks.end());
  group.port.reserve(ranks.size());
  std::unordered_map<int, std::int32_t> node_of_domain;
  node_of_domain.reserve(ranks.size());
  std::map<std::int32_t, std::vector<bool>> seen;  // [port] which nodes have it
  for (std::int32_t member = 0; member < group.ranks(); ++member) {
    const int rank = group.global[static_cast<std::size_t>(member)];
    const auto [found, added] = node_of_domain.try_emplace(links.domain_of(rank), group.node_count());
    if (added) group.nodes.emplace_back();
    const auto node = static_cast<std::size_t>(found->second);
    group.nodes[node].push_back(member);
    group.port.push_back(links.ports() > 0 ? links.port_of(rank) : -1);
    std::vector<bool>& nodes = seen[group.port.back()];
    if (nodes.size() <= node) nodes.resize(node + 1);
    nodes[node] = true;
  }
  for (const auto& [port, nodes] : seen)
    if (std::count(nodes.begin(), nodes.end(), true) == group.node_count()) group.rails.push_back(port);
  if (group.rails.empty()) group.rails.push_back(-1);
  return group;
}

std::int64_t FlowSchedule::round_count() const {
  std::int64_t sum = 0;
  for (const Round& round : rounds) sum += round.count;
  return sum;
}

Bytes FlowSchedule::critical() const {
  Bytes sum;
  for (const Round& round : rounds) {
    Bytes most;
    for (const Flow& flow : round.flows) most = std::max(most, flow.size);
    sum += most * round.count;
  }
  return sum;
}

// ---- Collectives -----------------------------------------------------------------------------------------------------

FlowSchedule collective_flows(const CollectiveCall& call, Algorithm algorithm, const FlowGroup& group, Pipelining how) {
  if (group.ranks() <= 1) return {};
  if (call.collective == Collective::send_recv) return {{{{{0, 1, -1, call.size}}, 1}}};
  switch (algorithm) {
    case Algorithm::ring:
      if (call.collective == Collective::broadcast) return ring_broadcast(call.size, group, how);
      return ring_rounds(call.size, group,
                         std::int64_t{call.collective == Collective::all_reduce ? 2 : 1} * (group.ranks() - 1));
    case Algorithm::tree:
      return tree_all_reduce(call.size, group, how);
    case Algorithm::nvls:
      return group.node_count() == 1 ? nvls(call, group, how) : collnet_direct(call, group, how);
    case Algorithm::nvls_tree:
      return nvls_tree(call.size, group, how);
    case Algorithm::collnet_direct:
      return collnet_direct(call, group, how);
    case Algorithm::collnet_chain:
      return collnet_chain(call.size, group, how);
    case Algorithm::pat:
      return pat(call, group);
    case Algorithm::direct:
      return direct_all_to_all(call.size, group);
    case Algorithm::automatic:
      break;
  }
  TRACECAST_ASSERT(false, "flows need the algorithm that was chosen");
  return {};
}

int parts_of(const ClusterLinks& links, const FlowGroup& group, const Flow& flow) {
  if (!links.hashed() || std::max(flow.from, flow.to) >= group.ranks()) return 1;
  const auto global = [&](std::int32_t member) { return group.global[static_cast<std::size_t>(member)]; };
  return links.parts(global(flow.from), global(flow.to), flow.rail);
}

Bytes part_size(Bytes size, int part, int parts) {
  const std::int64_t rest = size.count % parts;
  return {size.count / parts + (part < rest ? 1 : 0)};
}

void append_route(const ClusterLinks& links, const FlowGroup& group, const Flow& flow, LinkPath& route, int part) {
  const auto global = [&](std::int32_t member) { return group.global[static_cast<std::size_t>(member)]; };
  if (flow.to == group.network()) return links.append_to_network(global(flow.from), flow.rail, route);
  if (flow.from == group.network()) return links.append_from_network(global(flow.to), flow.rail, route);
  if (flow.to >= group.ranks()) return links.append_to_switch(global(flow.from), route);
  if (flow.from >= group.ranks()) return links.append_from_switch(global(flow.to), route);
  links.append_route(global(flow.from), global(flow.to), flow.rail, route, part);
}

}  // namespace tracecast
