#include "sim/network/routing.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// Sums the loads of each link, at the position of the first one.
void merge(std::vector<LinkLoad>& loads) {
  std::map<int, std::size_t> places;
  std::size_t kept = 0;
  for (const LinkLoad& load : loads) {
    const auto [place, is_new] = places.insert({load.link, kept});
    if (is_new) {
      loads[kept++] = load;
    } else {
      loads[place->second].weight += load.weight;
    }
  }
  loads.resize(kept);
}

}  // namespace

/// The NICs through which a message leaves one node and enters another.
struct Routing::Ends {
  int from_node = 0;
  int from_gpu = 0;
  std::vector<int> from_nics;
  int to_node = 0;
  int to_gpu = 0;
  std::vector<int> to_nics;
};

void Routing::add(int node, int link, std::int64_t weight, FlowRoute& route) const {
  const int id = topology_.node_link(node, link);
  route.loads.push_back({id, weight});
}

FlowRoute Routing::route(int from, int to, std::uint64_t flow) const {
  const Cluster& cluster = topology_.cluster();
  TRACECAST_ASSERT(from >= 0 && to >= 0 && std::max(from, to) < cluster.world_size, "ranks of the cluster");
  FlowRoute route;
  if (from == to) return route;
  const GpuCoord source = cluster.coord_of(from);
  const GpuCoord target = cluster.coord_of(to);
  if (source.node == target.node) {
    inside(source.node, source.gpu, target.gpu, route);
  } else {
    between(source, target, flow, route);
  }
  if (!route.connected) route.loads.clear();
  return route;
}

void Routing::inside(int node, int from, int to, FlowRoute& route) const {
  const NodeLayout& layout = topology_.node();
  if (from == to) return;
  if (layout.nvswitches > 0) {
    add(node, layout.nvswitch_link(from), kWholeFlow, route);
    add(node, layout.nvswitch_link(to) + 1, kWholeFlow, route);
    route.latency += topology_.cluster().node.link_latency;
  } else if (layout.mesh) {
    add(node, layout.mesh_link(from, to), kWholeFlow, route);
    route.latency += topology_.cluster().node.link_latency;
  } else {
    over_pcie(node, from, to, route);
  }
}

void Routing::over_pcie(int node, int from, int to, FlowRoute& route) const {
  const NodeLayout& layout = topology_.node();
  const int left = topology_.pcie_switch_of_gpu(from);
  const int right = topology_.pcie_switch_of_gpu(to);
  const int per_host = layout.pcie_switches / layout.hosts;
  route.connected = left / per_host == right / per_host;
  add(node, layout.gpu_pcie(from), kWholeFlow, route);
  if (left != right) add(node, layout.host_pcie(left), kWholeFlow, route);
  if (left != right) add(node, layout.host_pcie(right) + 1, kWholeFlow, route);
  add(node, layout.gpu_pcie(to) + 1, kWholeFlow, route);
  route.latency += topology_.cluster().node.link_latency;
}

bool Routing::rail_aware() const {
  const NodeLayout& layout = topology_.node();
  return options_.rail_aware && topology_.cluster().fabric == FabricKind::rail_optimized &&
         (layout.nvswitches > 0 || layout.mesh);
}

/// The port of the source's host that works on the rail of the port at which the message arrives; else its own.
int Routing::departure(GpuCoord source, int arrival) const {
  const NicPorts& ports = topology_.ports();
  const int own = ports.of_gpu(source.gpu);
  if (ports.rail_of(ports.in_use(source.node, own)) == ports.rail_of(arrival)) return own;
  const int port = own - ports.rail_of(own) + ports.rail_of(arrival);
  return ports.in_use(source.node, port) == port ? port : own;
}

void Routing::between(GpuCoord from, GpuCoord to, std::uint64_t flow, FlowRoute& route) const {
  Ends ends;
  ends.from_node = from.node;
  ends.to_node = to.node;
  ends.to_gpu = to.gpu;
  const NicPorts& ports = topology_.ports();
  route.connected = ports.count() > 0;
  if (!route.connected) return;
  const int arrival = ports.exit(to, -1).port;
  const NicPorts::Exit departed = ports.exit(from, rail_aware() ? departure(from, arrival) : -1);
  ends.from_gpu = departed.gpu;
  ends.from_nics = ports.nics(from.node, departed.port);
  ends.to_nics = ports.nics(to.node, arrival);
  PathSelector selector;
  if (options_.policy == RoutingPolicy::ecmp) {
    for (std::vector<int>* nics : {&ends.from_nics, &ends.to_nics}) *nics = {(*nics)[flow % nics->size()]};
    selector = hashed_selector(options_.seed, {ends.from_node, ends.from_nics.front()},
                               {ends.to_node, ends.to_nics.front()}, flow);
  }
  inside(ends.from_node, from.gpu, ends.from_gpu, route);
  route.latency += topology_.cluster().node.nic_latency;
  cross_fabric(ends, selector, route);
}

/// From a GPU to a NIC (`up`) or back, over the PCIe switch they share or over the host.
void Routing::to_nic(int node, int gpu, int nic, std::int64_t weight, bool up, FlowRoute& route) const {
  const NodeLayout& layout = topology_.node();
  const int left = topology_.pcie_switch_of_gpu(gpu);
  const int right = topology_.pcie_switch_of_nic(nic);
  std::vector<int> path{layout.gpu_pcie(gpu)};
  if (left != right) {
    path.push_back(layout.host_pcie(left));
    path.push_back(layout.host_pcie(right) + 1);
  }
  path.push_back(layout.nic_pcie(nic) + 1);
  path.push_back(layout.nic_cable(nic));
  // A pair of links is an even number (up) and the next one (down): the opposite direction uses the other link of each pair.
  if (!up) {
    std::reverse(path.begin(), path.end());
    for (int& link : path) link += (link - layout.nvlinks()) % 2 == 0 ? 1 : -1;
  }
  for (const int link : path) add(node, link, weight, route);
}

void Routing::cross_fabric(const Ends& ends, const PathSelector& selector, FlowRoute& route) const {
  std::vector<std::pair<int, int>> pairs;
  const bool alike = ends.from_nics.size() == ends.to_nics.size();
  for (std::size_t i = 0; i < ends.from_nics.size(); ++i)
    for (std::size_t j = 0; j < ends.to_nics.size(); ++j)
      if (!alike || i == j) pairs.emplace_back(ends.from_nics[i], ends.to_nics[j]);
  const auto share = [](std::size_t parts) { return kWholeFlow / static_cast<std::int64_t>(parts); };
  for (const int nic : ends.from_nics)
    to_nic(ends.from_node, ends.from_gpu, nic, share(ends.from_nics.size()), true, route);
  Duration slowest;
  for (const auto& [from_nic, to_nic] : pairs) {
    const FabricPath path = topology_.path({ends.from_node, from_nic}, {ends.to_node, to_nic}, selector);
    route.connected = route.connected && path.connected;
    for (const LinkLoad& load : path.loads)
      route.loads.push_back(
          {topology_.first_fabric_link() + load.link, load.weight / static_cast<std::int64_t>(pairs.size())});
    slowest = std::max(slowest, path.latency);
    route.switches = std::max(route.switches, path.switches);
  }
  route.latency += slowest;
  for (const int nic : ends.to_nics) to_nic(ends.to_node, ends.to_gpu, nic, share(ends.to_nics.size()), false, route);
  if (pairs.size() > 1 || route.switches > 2) merge(route.loads);
}

Bandwidth bottleneck(const Topology& topology, const FlowRoute& route) {
  std::int64_t rate = std::numeric_limits<std::int64_t>::max();
  for (const LinkLoad& load : route.loads) {
    const auto capacity = static_cast<double>(topology.link(load.link).capacity.bytes_per_second);
    const double flow = capacity * static_cast<double>(kWholeFlow) / static_cast<double>(load.weight);
    rate = std::min(rate, static_cast<std::int64_t>(flow));
  }
  return {route.loads.empty() ? 0 : rate};
}

}  // namespace tracecast
