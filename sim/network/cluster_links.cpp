#include "sim/network/cluster_links.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"
#include "sim/network/nccl_tuning.hpp"

namespace tracecast {
namespace {

Bandwidth rounded(double bytes_per_second) { return {std::llround(bytes_per_second)}; }

}  // namespace

ClusterLinks::ClusterLinks(const Cluster& cluster, const std::string& architecture)
    : cluster_(cluster), gpus_(cluster.node.gpus), rail_optimized_(cluster.fabric == FabricKind::rail_optimized) {
  const int hosts = std::max(1, cluster.node.gpus / std::max(1, cluster.node.gpus_per_host));
  const int nics = cluster.node.nics * hosts;
  ports_ = std::min(nics, gpus_);
  ports_per_host_ = std::max(1, ports_ / hosts);
  GroupPlacement whole_domain;
  whole_domain.ranks_per_node = gpus_;
  gpu_capacity_ =
      rounded(std::max(1.0, 1e9 * nccl_gpu_rate(cluster.node, whole_domain, nccl_architecture(architecture))));
  find_ports();
  tiers_base_ = count_ = cluster.nodes() * 2 * (gpus_ + ports_);
  if (cluster.routing == RoutingPolicy::ecmp) {
    hashed_ = std::make_shared<const Topology>(cluster_, FabricDetail::switches);
    number_cables();
    return;
  }
  double wire = kWireEfficiency * static_cast<double>(cluster.node.nic_rate.bytes_per_second) * nics;  // of a domain
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0 || ports_ == 0) break;
    const int planes = tiers_.empty() && rail_optimized_ ? ports_per_host_ : 1;
    const int units = ceil_div(cluster.nodes(), tier.nodes);
    const auto lost = cluster.faults.lost_uplinks.find(tier.name);
    const double left = lost == cluster.faults.lost_uplinks.end() ? 1 : 1 - lost->second;
    wire /= tier.oversubscription;  // what the tier above gets
    tiers_.push_back({tier.name, tier.nodes, planes, count_, rounded(wire * tier.nodes / planes * left)});
    count_ += 2 * units * planes;
  }
}

void ClusterLinks::number_cables() {
  for (int link = hashed_->first_fabric_link(); link < hashed_->link_count(); ++link) {
    first_cables_.push_back(count_);
    count_ += hashed_->link(link).cables;
  }
  first_cables_.push_back(count_);
}

ClusterLinks::Cable ClusterLinks::cable(std::int32_t link) const {
  const auto behind = std::upper_bound(first_cables_.begin(), first_cables_.end(), link);
  const auto fabric_link = static_cast<int>(behind - first_cables_.begin()) - 1;
  return {hashed_->link(hashed_->first_fabric_link() + fabric_link), link - *(behind - 1)};
}

void ClusterLinks::find_ports() {
  if (ports_ == 0) return;
  Cluster usual = cluster_;
  usual.faults.slow_nics.clear();
  usual_ports_ = ports_at(Topology(usual), ports_, 0);
  if (cluster_.faults.slow_nics.empty()) return;
  const Topology topology(cluster_);
  for (const NetworkFaults::SlowNic& slow : cluster_.faults.slow_nics)
    if (slow.node < topology.nodes()) other_ports_[slow.node] = ports_at(topology, ports_, slow.node);
}

ClusterLinks::Ports ClusterLinks::ports_at(const Topology& topology, int ports, int domain) {
  const NodeLayout& layout = topology.node();
  std::vector<std::vector<int>> working(static_cast<std::size_t>(ports));
  std::vector<double> slowest(static_cast<std::size_t>(ports), std::numeric_limits<double>::max());
  for (int nic = 0; nic < layout.nics; ++nic) {
    const TopologyLink cable = topology.link(topology.node_link(domain, layout.nic_cable(nic)));
    if (cable.capacity.bytes_per_second == 0) continue;
    const auto port = static_cast<std::size_t>(nic * ports / layout.nics);
    working[port].push_back(nic);
    slowest[port] = std::min(slowest[port], static_cast<double>(cable.capacity.bytes_per_second));
  }
  Ports result;
  const int per_host = ports / layout.hosts;
  for (int port = 0; port < ports; ++port) {
    const auto works = [&](int each) { return !working[static_cast<std::size_t>(each)].empty(); };
    const auto own = static_cast<std::size_t>(port);
    const auto nics = static_cast<double>(working[own].size());
    result.capacity.push_back(works(port) ? rounded(kWireEfficiency * slowest[own] * nics) : Bandwidth{});
  }
  for (int host = 0; host < layout.hosts; ++host) {
    std::vector<bool> works;
    for (int port = 0; port < per_host; ++port)
      works.push_back(!working[static_cast<std::size_t>(host * per_host + port)].empty());
    for (const int port : nics_in_use(works)) result.in_use.push_back(host * per_host + port);
  }
  result.nics = std::move(working);
  return result;
}

const ClusterLinks::Ports& ClusterLinks::ports_of(int domain) const {
  const auto other = other_ports_.find(domain);
  return other == other_ports_.end() ? usual_ports_ : other->second;
}

Bandwidth ClusterLinks::capacity(std::int32_t link) const {
  TRACECAST_ASSERT(link >= 0 && link < count_, "a link of the cluster");
  if (link < tiers_base_) {
    const std::int32_t local = link % (2 * (gpus_ + ports_));
    if (local < 2 * gpus_) return gpu_capacity_;
    return ports_of(link / (2 * (gpus_ + ports_))).capacity[static_cast<std::size_t>((local - 2 * gpus_) % ports_)];
  }
  if (hashed()) {
    const TopologyLink all = cable(link).link;
    return rounded(kWireEfficiency * static_cast<double>(all.capacity.bytes_per_second) / all.cables);
  }
  const auto above = std::find_if(tiers_.begin(), tiers_.end(), [&](const Tier& tier) { return tier.base > link; });
  return std::prev(above)->capacity;
}

std::string ClusterLinks::name(std::int32_t link) const {
  TRACECAST_ASSERT(link >= 0 && link < count_, "a link of the cluster");
  if (link < tiers_base_) {
    const std::int32_t domain = link / (2 * (gpus_ + ports_));
    const std::int32_t local = link % (2 * (gpus_ + ports_));
    if (local < 2 * gpus_) return fmt::format("node {} gpu {} {}", domain, local % gpus_, local < gpus_ ? "out" : "in");
    const std::int32_t port = local - 2 * gpus_;
    return fmt::format("node {} port {} {}", domain, port % ports_, port < ports_ ? "out" : "in");
  }
  if (hashed()) {
    const auto [all, place] = cable(link);
    const std::string between = fmt::format("{} to {}", hashed_->name(all.from), hashed_->name(all.to));
    return all.cables == 1 ? between : fmt::format("{} cable {}", between, place);
  }
  const auto above = std::find_if(tiers_.begin(), tiers_.end(), [&](const Tier& tier) { return tier.base > link; });
  const Tier& tier = *std::prev(above);
  const std::int32_t bundle = (link - tier.base) / 2;
  const char* direction = (link - tier.base) % 2 == 0 ? "up" : "down";
  if (tier.planes == 1) return fmt::format("{} {} {}", tier.name, bundle, direction);
  return fmt::format("{} {} rail {} {}", tier.name, bundle / tier.planes, bundle % tier.planes, direction);
}

std::int32_t ClusterLinks::up(const Tier& tier, int domain, int port) {
  return tier.base + 2 * (domain / tier.nodes * tier.planes + port % tier.planes);
}

GpuCoord ClusterLinks::gpu_next_to(int domain, int port) const {
  return {domain, (port * gpus_ + ports_ - 1) / ports_};
}

ClusterLinks::PortPair ClusterLinks::port_pair(GpuCoord source, GpuCoord target, int rail) const {
  TRACECAST_ASSERT(ports_ > 0, "domains are connected by NICs");
  PortPair flow{source, target, rail < 0 ? port_of(source) : rail, rail < 0 ? port_of(target) : rail};
  flow.from_in_use = port_in_use(source.node, flow.from_port);
  flow.to_in_use = port_in_use(target.node, flow.to_port);
  return flow;
}

void ClusterLinks::append_climb(const PortPair& flow, LinkPath& route) const {
  bool changes_rail = rail_optimized_ && rail_of(flow.from_in_use) != rail_of(flow.to_in_use);
  for (const Tier& tier : tiers_) {
    if (flow.source.node / tier.nodes == flow.target.node / tier.nodes && !changes_rail) return;
    changes_rail = false;
    route.push_back(up(tier, flow.source.node, flow.from_in_use));
    route.push_back(up(tier, flow.target.node, flow.to_in_use) + 1);
  }
}

void ClusterLinks::append_cables(const PortPair& flow, int part, LinkPath& route) const {
  const auto nic = [part](const std::vector<int>& nics) { return nics[static_cast<std::size_t>(part) % nics.size()]; };
  const NicId from{flow.source.node, nic(nics_of(flow.source.node, flow.from_in_use))};
  const NicId to{flow.target.node, nic(nics_of(flow.target.node, flow.to_in_use))};
  const int start = hashed_->attached(from.node, from.nic);
  const int end = hashed_->attached(to.node, to.nic);
  const PathSelector selector =
      hashed_selector(static_cast<std::uint64_t>(cluster_.routing_seed), from, to, static_cast<std::uint64_t>(part));
  const FabricPath path =
      std::visit([&](const auto& fabric) { return fabric.path(start, end, selector); }, hashed_->fabric());
  TRACECAST_ASSERT(path.connected, "any two NICs of a fabric are connected");
  int hop = 1 << 16;  // decisions between switches use smaller numbers
  for (const LinkLoad& load : path.loads) {
    const std::int32_t* first = first_cables_.data() + load.link;
    route.push_back(*first + selector.pick(first[1] - *first, hop++));
  }
}

int ClusterLinks::parts(int from, int to, int rail) const {
  const GpuCoord source = cluster_.coord_of(from);
  const GpuCoord target = cluster_.coord_of(to);
  if (!hashed() || source.node == target.node) return 1;
  const PortPair flow = port_pair(source, target, rail);
  return static_cast<int>(
      std::max(nics_of(source.node, flow.from_in_use).size(), nics_of(target.node, flow.to_in_use).size()));
}

void ClusterLinks::append_forward(GpuCoord from, GpuCoord to, LinkPath& route) const {
  if (port_of(from) == port_of(to)) return;
  route.push_back(gpu_out(from));
  route.push_back(gpu_in(to));
}

void ClusterLinks::append_departure(GpuCoord from, int port, LinkPath& route) const {
  append_forward(from, gpu_next_to(from.node, port), route);
  route.push_back(port_out(from.node, port_in_use(from.node, port)));
}

void ClusterLinks::append_arrival(GpuCoord to, int port, LinkPath& route) const {
  route.push_back(port_in(to.node, port_in_use(to.node, port)));
  append_forward(gpu_next_to(to.node, port), to, route);
}

void ClusterLinks::append_route(int from, int to, int rail, LinkPath& route, int part) const {
  TRACECAST_ASSERT(from != to, "a flow goes from one rank to another");
  const GpuCoord source = cluster_.coord_of(from);
  const GpuCoord target = cluster_.coord_of(to);
  if (source.node == target.node) {
    route.push_back(gpu_out(source));
    route.push_back(gpu_in(target));
    return;
  }
  const PortPair flow = port_pair(source, target, rail);
  append_departure(source, flow.from_port, route);
  if (hashed())
    append_cables(flow, part, route);
  else
    append_climb(flow, route);
  append_arrival(target, flow.to_port, route);
}

bool ClusterLinks::is_translation(int first, int last, int domains) const {
  if (!cluster_.faults.uniform()) return false;
  const int from = cluster_.node_of(first);
  const int to = cluster_.node_of(last);
  if (from == to) return true;
  if (hashed()) return false;  // paths depend on the hash
  for (const Tier& tier : tiers_) {
    if (domains % tier.nodes == 0) continue;
    const bool lowest = &tier == &tiers_.front();
    const bool inside =
        from / tier.nodes == to / tier.nodes && (from + domains) / tier.nodes == (to + domains) / tier.nodes;
    return inside && !(lowest && rail_optimized_);  // rails meet above the lowest tier
  }
  return true;
}

bool ClusterLinks::ports_work_alike() const {
  const std::vector<Bandwidth>& capacity = usual_ports_.capacity;
  return cluster_.faults.uniform() &&
         std::adjacent_find(capacity.begin(), capacity.end(), std::not_equal_to()) == capacity.end();
}

std::optional<LinkOrbits> ClusterLinks::orbits(int step) const {
  const bool moves_ports = gpus_ % step == 0 && ports_ * step % gpus_ == 0 && ports_work_alike() && !hashed();
  if (step != gpus_ && !moves_ports) return std::nullopt;
  std::vector<LinkOrbits::Tier> tiers;
  for (const Tier& tier : tiers_)
    tiers.push_back({tier.nodes, ceil_div(cluster_.nodes(), tier.nodes), tier.planes, tier.base});
  return LinkOrbits(gpus_, ports_, cluster_.nodes(), step, tiers);
}

void ClusterLinks::append_to_network(int rank, int rail, LinkPath& route) const {
  append_departure(cluster_.coord_of(rank), rail < 0 ? port_of(rank) : rail, route);
}

void ClusterLinks::append_from_network(int rank, int rail, LinkPath& route) const {
  append_arrival(cluster_.coord_of(rank), rail < 0 ? port_of(rank) : rail, route);
}

}  // namespace tracecast
