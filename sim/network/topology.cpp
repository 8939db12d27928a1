#include "sim/network/topology.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

NodeLayout layout_of(const NodeSpec& node) {
  NodeLayout layout;
  layout.gpus = node.gpus;
  layout.hosts = node.hosts();
  layout.nics = node.nics * layout.hosts;
  layout.pcie_switches = layout.hosts * (node.nics == 0 ? node.gpus_per_host : std::min(node.gpus_per_host, node.nics));
  layout.nvswitches = node.link == IntraLink::nvswitch ? 1 : 0;
  layout.mesh = node.link == IntraLink::nvlink_mesh || node.link == IntraLink::xgmi;
  return layout;
}

Bandwidth scaled(Bandwidth rate, double factor) {
  return {std::llround(static_cast<double>(rate.bytes_per_second) * factor)};
}

/// The half of a latency that a direction away from the GPUs takes; the other half takes the rest.
Duration half(Duration latency, bool up) {
  const Duration first{latency.picoseconds / 2};
  return up ? first : latency - first;
}

TopologyLink joined(LinkKind kind, int lower, int upper, bool up, Bandwidth capacity, Duration latency) {
  return {kind, -1, up ? lower : upper, up ? upper : lower, 1, capacity, latency};
}

}  // namespace

Topology::Topology(const Cluster& cluster, FabricDetail detail)
    : cluster_(cluster),
      detail_(detail),
      layout_(layout_of(cluster.node)),
      nodes_(std::max(1, cluster.nodes())),
      ports_(cluster),
      fabric_(make_fabric(cluster, detail)) {
  if (layout_.nics == 0) return;  // no network: the fabric has nothing to join
  switch_count_ = std::visit([](const auto& fabric) { return fabric.switch_count(); }, fabric_);
  fabric_links_ = std::visit([](const auto& fabric) { return fabric.link_count(); }, fabric_);
  // Links of a dragonfly above its groups are those between them.
  if (std::holds_alternative<DragonflyFabric>(fabric_)) kept_.push_back(1);
  for (const FabricTier& tier : cluster.tiers) {
    const auto lost = cluster.faults.lost_uplinks.find(tier.name);
    kept_.push_back(lost == cluster.faults.lost_uplinks.end() ? 1 : 1 - lost->second);
  }
}

Vertex Topology::vertex(int id) const {
  TRACECAST_ASSERT(id >= 0 && id < vertex_count(), "a vertex of the topology");
  Vertex vertex;
  if (id >= first_switch()) {
    vertex.kind = VertexKind::fabric_switch;
    vertex.fabric_switch = std::visit([&](const auto& f) { return f.fabric_switch(id - first_switch()); }, fabric_);
    vertex.devices = vertex.fabric_switch.devices;
    return vertex;
  }
  const int local = id % layout_.vertices();
  const std::pair<VertexKind, int> starts[] = {{VertexKind::nvswitch, layout_.nvswitch()},
                                               {VertexKind::host, layout_.host(0)},
                                               {VertexKind::pcie_switch, layout_.pcie_switch(0)},
                                               {VertexKind::nic, layout_.nic(0)},
                                               {VertexKind::gpu, 0}};
  const auto* start =
      std::find_if(std::begin(starts), std::end(starts), [&](const auto& s) { return local >= s.second; });
  vertex.kind = start->first;
  vertex.node = id / layout_.vertices();
  vertex.index = local - start->second;
  if (vertex.kind == VertexKind::nvswitch) vertex.devices = cluster_.node.nvswitches;
  return vertex;
}

std::string Topology::name(int id) const {
  const Vertex v = vertex(id);
  constexpr const char* kShort[] = {"gpu", "nic", "pcie", "host", "nvswitch"};
  if (v.kind == VertexKind::nvswitch) return fmt::format("node{}/nvswitch", v.node);
  if (v.node >= 0) return fmt::format("node{}/{}{}", v.node, kShort[static_cast<int>(v.kind)], v.index);
  const FabricSwitch& s = v.fabric_switch;
  if (std::holds_alternative<DragonflyFabric>(fabric_)) return fmt::format("group{}/router{}", s.unit, s.index);
  if (std::holds_alternative<TorusFabric>(fabric_)) return fmt::format("router{}", s.index);
  const auto tier = static_cast<std::size_t>(s.tier);
  const std::string level = tier < cluster_.tiers.size() ? cluster_.tiers[tier].name : "switch";
  if (detail_ == FabricDetail::planes) return fmt::format("{}{}.{}", level, s.unit, s.group);
  return fmt::format("{}{}.{}.{}", level, s.unit, s.group, s.index);
}

int Topology::pcie_switch_of_gpu(int gpu) const {
  const NodeSpec& node = cluster_.node;
  const int host = gpu / node.gpus_per_host;
  const int local = gpu % node.gpus_per_host;
  const int per_host = layout_.pcie_switches / layout_.hosts;
  const bool own = per_host == node.gpus_per_host;
  return host * per_host + (own ? local : local * node.nics / node.gpus_per_host);
}

int Topology::pcie_switch_of_nic(int nic) const {
  const NodeSpec& node = cluster_.node;
  const int host = nic / node.nics;
  const int local = nic % node.nics;
  const int per_host = layout_.pcie_switches / layout_.hosts;
  if (per_host == node.nics) return host * per_host + local;
  // The GPU whose NICs, from floor(i nics / gpus) on, it is among.
  return host * per_host + ((local + 1) * node.gpus_per_host - 1) / node.nics;
}

int Topology::attached(int node, int nic) const {
  return std::visit([&](const auto& fabric) { return fabric.attached(node, nic); }, fabric_);
}

FabricPath Topology::path(NicId from, NicId to, const PathSelector& selector) const {
  const auto between = [&](const auto& fabric) {
    return fabric.path(fabric.attached(from.node, from.nic), fabric.attached(to.node, to.nic), selector);
  };
  return std::visit(between, fabric_);
}

/// Links of node 0 other than NIC cables.
TopologyLink Topology::node_local_link(int link) const {
  const NodeSpec& node = cluster_.node;
  const bool up = (link - layout_.nvlinks()) % 2 == 0;
  if (link < layout_.nvlinks() && layout_.mesh) {
    const int from = link / (layout_.gpus - 1);
    const int place = link % (layout_.gpus - 1);
    const Bandwidth rate{node.gpu_link.bytes_per_second / (layout_.gpus - 1)};
    return {LinkKind::nvlink, -1, from, place + (place >= from ? 1 : 0), 1, rate, node.link_latency};
  }
  if (link < layout_.nvlinks())
    return joined(LinkKind::nvlink, link / 2, layout_.nvswitch(), link % 2 == 0, node.gpu_link,
                  half(node.link_latency, link % 2 == 0));
  const bool over_pcie = node.link == IntraLink::pcie;  // messages between GPUs: PCIe has the latency
  if (link < layout_.nic_pcie(0)) {
    const int gpu = (link - layout_.gpu_pcie(0)) / 2;
    return joined(LinkKind::pcie, gpu, layout_.pcie_switch(pcie_switch_of_gpu(gpu)), up, node.pcie,
                  over_pcie ? half(node.link_latency, up) : Duration{});
  }
  if (link < layout_.host_pcie(0)) {
    const int nic = (link - layout_.nic_pcie(0)) / 2;
    return joined(LinkKind::pcie, layout_.nic(nic), layout_.pcie_switch(pcie_switch_of_nic(nic)), up, node.pcie, {});
  }
  const int pcie_switch = (link - layout_.host_pcie(0)) / 2;
  const int host = pcie_switch / (layout_.pcie_switches / layout_.hosts);
  return joined(LinkKind::pcie, layout_.pcie_switch(pcie_switch), layout_.host(host), up, node.pcie, {});
}

TopologyLink Topology::nic_cable(int node, int nic, bool up) const {
  const int from = node * layout_.vertices() + layout_.nic(nic);
  const int to = first_switch() + attached(node, nic);
  return joined(LinkKind::nic, from, to, up, ports_.nic_rate(node, nic), half(cluster_.node.nic_latency, up));
}

TopologyLink Topology::link(int id) const {
  TRACECAST_ASSERT(id >= 0 && id < link_count(), "a link of the topology");
  TopologyLink link;
  if (id >= first_fabric_link()) {
    const FabricLink f = std::visit([&](const auto& fabric) { return fabric.link(id - first_fabric_link()); }, fabric_);
    const double kept = f.tier < static_cast<int>(kept_.size()) ? kept_[static_cast<std::size_t>(f.tier)] : 1;
    const Bandwidth capacity = kept == 1 ? f.capacity : scaled(f.capacity, kept);
    link = {LinkKind::fabric, f.tier, first_switch() + f.from, first_switch() + f.to, f.cables, capacity, f.latency};
  } else {
    const int node = id / layout_.links();
    const int local = id % layout_.links();
    const int cable = local - layout_.nic_cable(0);
    link = cable >= 0 ? nic_cable(node, cable / 2, cable % 2 == 0) : node_local_link(local);
    if (cable < 0) link.from += node * layout_.vertices();
    if (cable < 0) link.to += node * layout_.vertices();
  }
  return link;
}

}  // namespace tracecast
