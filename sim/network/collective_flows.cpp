#include "sim/network/collective_flows.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "sim/network/algorithms/algorithm.hpp"

namespace tracecast {

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
    Bytes max;
    for (const Flow& flow : round.flows) max = std::max(max, flow.size);
    sum += max * round.count;
  }
  return sum;
}

namespace {

/// Every member sends to the next.
Round neighbour_round(std::int32_t ranks, Bytes size) {
  Round round;
  for (std::int32_t member = 0; member < ranks; ++member)
    round.flows.push_back({member, (member + 1) % ranks, -1, size});
  return round;
}

}  // namespace

// ---- Collectives -----------------------------------------------------------------------------------------------------

FlowSchedule message_flows(Bytes size) { return {{{{{0, 1, -1, size}}, 1}}}; }

FlowSchedule collective_flows(const CollectiveCall& call, Algorithm algorithm, const FlowGroup& group, Pipelining how) {
  if (group.ranks() <= 1) return {};
  if (call.collective == Collective::send_recv) return {{neighbour_round(group.ranks(), call.size)}};
  return row_of(algorithm).flows(call, group, how);
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
