#include "sim/network/collective_flows.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "sim/network/algorithms/algorithm.hpp"

namespace tracecast {

// ---- Groups ----------------------------------------------------------------------------------------------------------

bool FlowGroup::even() const {
  return std::all_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.size() == nodes.front().size(); });
}

namespace {

/// Ports that do not work are left to the members at the ports that replace them, if there are any: channels are as many as
/// the working ports of the group.
void leave_out_broken_ports(const ClusterLinks& links, FlowGroup& group) {
  for (const std::vector<std::int32_t>& node : group.nodes)
    for (const std::int32_t member : node) {
      std::int32_t& port = group.port[static_cast<std::size_t>(member)];
      const std::int32_t working = links.working_port_of(group.global[static_cast<std::size_t>(member)]);
      const auto is_there = [&](std::int32_t other) {
        return links.port_of(group.global[static_cast<std::size_t>(other)]) == working;
      };
      if (working != port && std::any_of(node.begin(), node.end(), is_there)) port = working;
    }
}

/// FlowGroup::rails, from the ports of its members.
std::vector<std::int32_t> rails_of(const FlowGroup& group) {
  std::map<std::int32_t, std::int32_t> nodes_with;  // [port] number of nodes that have it
  std::size_t fewest = group.port.size();           // ports of a node
  std::vector<std::int32_t> ports;                  // of one node
  for (const std::vector<std::int32_t>& node : group.nodes) {
    ports.clear();
    for (const std::int32_t member : node) ports.push_back(group.port[static_cast<std::size_t>(member)]);
    std::sort(ports.begin(), ports.end());
    ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
    for (const std::int32_t port : ports) ++nodes_with[port];
    fewest = std::min(fewest, ports.size());
  }
  std::vector<std::int32_t> rails;
  for (const auto& [port, nodes] : nodes_with)
    if (nodes == group.node_count()) rails.push_back(port);
  if (rails.size() == fewest) return rails;
  rails.clear();
  for (std::size_t channel = 0; channel < fewest; ++channel) rails.push_back(-1 - static_cast<std::int32_t>(channel));
  return rails;
}

}  // namespace

FlowGroup make_flow_group(const ClusterLinks& links, std::span<const int> ranks) {
  FlowGroup group;
  group.global.assign(ranks.begin(), ranks.end());
  group.port.reserve(ranks.size());
  std::unordered_map<int, std::int32_t> node_of_domain;
  node_of_domain.reserve(ranks.size());
  for (std::int32_t member = 0; member < group.ranks(); ++member) {
    const int rank = group.global[static_cast<std::size_t>(member)];
    const auto [found, added] = node_of_domain.try_emplace(links.domain_of(rank), group.node_count());
    if (added) group.nodes.emplace_back();
    group.nodes[static_cast<std::size_t>(found->second)].push_back(member);
    group.port.push_back(links.ports() > 0 ? links.port_of(rank) : -1);
  }
  if (links.ports() > 0) leave_out_broken_ports(links, group);
  group.rails = rails_of(group);
  return group;
}

std::int64_t FlowSchedule::round_count() const {
  std::int64_t sum = 0;
  for (const Round& round : rounds) sum += round.count;
  return sum + made_rounds;
}

Bytes FlowSchedule::critical() const {
  Bytes sum;
  each_round([&](const Round& round) {
    Bytes max;
    for (const Flow& flow : round.flows) max = std::max(max, flow.size);
    sum += max * round.count;
  });
  return sum;
}

namespace {

/// Every member sends to the next, on the rail of the receiver.
Round neighbour_round(const FlowGroup& group, Bytes size) {
  Round round;
  for (std::int32_t member = 0; member < group.ranks(); ++member) {
    const std::int32_t next = (member + 1) % group.ranks();
    round.flows.push_back({member, next, group.port[static_cast<std::size_t>(next)], size});
  }
  return round;
}

}  // namespace

// ---- Collectives -----------------------------------------------------------------------------------------------------

FlowSchedule message_flows(Bytes size, std::int32_t port) { return {{{{{0, 1, port, size}}, 1}}}; }

FlowSchedule collective_flows(const CollectiveCall& call, Algorithm algorithm, const FlowGroup& group) {
  if (group.ranks() <= 1) return {};
  if (call.collective == Collective::send_recv) return {{neighbour_round(group, call.size)}};
  return row_of(algorithm).flows(call, group);
}

bool leaves_domain(const ClusterLinks& links, const FlowGroup& group, const Flow& flow) {
  if (std::max(flow.from, flow.to) >= group.ranks()) return std::max(flow.from, flow.to) == group.network();
  const auto domain = [&](std::int32_t member) {
    return links.domain_of(group.global[static_cast<std::size_t>(member)]);
  };
  return domain(flow.from) != domain(flow.to);
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
