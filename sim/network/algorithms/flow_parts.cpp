#include "sim/network/algorithms/flow_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tracecast {

// ---- Pipelines -------------------------------------------------------------------------------------------------------

FlowSchedule pipeline(const std::vector<Flow>& flows, const FlowGroup& group) {
  Round round;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> known;
  for (const Flow& flow : flows) {
    const std::int32_t end = std::max(flow.from, flow.to);
    const bool switched = end >= group.ranks() && end < group.network();
    const auto [found, added] = known.try_emplace({flow.from, flow.to}, round.flows.size());
    if (added || !switched)
      round.flows.push_back(flow);
    else
      round.flows[found->second].size += flow.size;
  }
  return {{std::move(round)}};
}

// ---- Rails and chains --------------------------------------------------------------------------------------------------

namespace {

/// The member of a node at which a channel of FlowGroup::rails begins.
std::int32_t member_at_rail(const FlowGroup& group, const Members& node, std::int32_t rail) {
  const auto port = [&](std::int32_t member) { return group.port[static_cast<std::size_t>(member)]; };
  if (rail >= 0) return *std::find_if(node.begin(), node.end(), [&](auto member) { return port(member) == rail; });
  Members at_ports;  // the first member at each port
  for (const std::int32_t member : node)
    if (std::none_of(at_ports.begin(), at_ports.end(), [&](auto known) { return port(known) == port(member); }))
      at_ports.push_back(member);
  return at(at_ports, (-1 - rail) % size32(at_ports.size()));
}

}  // namespace

void append_chain_from_rail(const FlowGroup& group, const Members& node, std::int32_t rail, Members& order) {
  const auto begin = order.insert(order.end(), node.begin(), node.end());
  std::rotate(begin, std::find(begin, order.end(), member_at_rail(group, node, rail)), order.end());
}

Members channels_of(const FlowGroup& group) { return group.node_count() == 1 ? Members{-1} : group.rails; }

// ---- Trees -------------------------------------------------------------------------------------------------------------

NodeTree::NodeTree(const FlowGroup& group, std::int32_t rail, TreePlace (*place)(int, int))
    : group_(group), rail_(rail) {
  for (std::int32_t node = 0; node < group.node_count(); ++node) places_.push_back(place(node, group.node_count()));
  for (const Members& node : group.nodes) append_chain_from_rail(group, node, rail, chains_.emplace_back());
}

void NodeTree::add_node_flows(Bytes buffer, std::vector<Flow>& flows) const {
  for (std::int32_t node = 0; node < group_.node_count(); ++node) {
    const std::int32_t parent = places_[static_cast<std::size_t>(node)].parent;
    if (parent < 0) continue;
    flows.push_back({head(node), head(parent), rail_, buffer});
    flows.push_back({head(parent), head(node), rail_, buffer});
  }
}

void NodeTree::add_chain_flows(Bytes buffer, std::vector<Flow>& flows) const {
  for (const Members& chain : chains_)
    for (std::int32_t i = 0; i + 1 < size32(chain.size()); ++i) {
      flows.push_back({at(chain, i + 1), at(chain, i), -1, buffer});
      flows.push_back({at(chain, i), at(chain, i + 1), -1, buffer});
    }
}

// ---- Switches and networks that reduce ---------------------------------------------------------------------------------

void add_switch_flows(const FlowGroup& group, Bytes up, Bytes down, std::vector<Flow>& flows) {
  for (std::int32_t node = 0; node < group.node_count(); ++node)
    for (const std::int32_t member : group.nodes[static_cast<std::size_t>(node)]) {
      flows.push_back({member, group.switch_of(node), -1, up});
      flows.push_back({group.switch_of(node), member, -1, down});
    }
}

double around_ring(Collective collective, const GroupPlacement& group) {
  return bus_bandwidth(collective, group.ranks, {1}, from_seconds(1));
}

double through_trees(Collective, const GroupPlacement& group) { return through_trees(group.nodes); }

double through_network(Collective, const GroupPlacement&) { return 1; }

const char* needs_nvls(const Cluster& cluster, int) {
  return cluster.node.nvls ? nullptr : "an NVSwitch with multicast (H100 or later)";
}

const char* needs_sharp(const Cluster& cluster, int) {
  return cluster.tuning.sharp ? nullptr : "a network that reduces (SHARP)";
}

FlowSchedule network_reduction_flows(const CollectiveCall& call, const FlowGroup& group) {
  const bool reduces = call.collective != Collective::all_gather;
  const bool distributes = call.collective != Collective::reduce_scatter;
  const std::int64_t nodes = group.node_count();
  const Bytes slice = call.size / size32(group.rails.size());
  const Bytes own = slice / nodes;  // what a node contributes to a gather, or receives of a scatter
  std::vector<Flow> flows;
  for (const Members& node : group.nodes)
    for (const std::int32_t rail : group.rails) {
      const std::int32_t head = member_at_rail(group, node, rail);
      const Bytes part = own / size32(node.size());
      for (const std::int32_t member : node) {
        if (member == head) continue;
        flows.push_back({member, head, -1, reduces ? slice : part});
        flows.push_back({head, member, -1, distributes ? slice : part});
      }
      flows.push_back({head, group.network(), rail, reduces ? slice : own});
      flows.push_back({group.network(), head, rail, distributes ? slice : own});
    }
  return pipeline(flows, group);
}

}  // namespace tracecast
