#include "sim/network/cluster_links.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/network/nccl_tuning.hpp"

namespace tracecast {
namespace {

Bandwidth rounded(double bytes_per_second) { return {std::llround(bytes_per_second)}; }

Bandwidth reached(Bandwidth line_rate) {
  return rounded(kWireEfficiency * static_cast<double>(line_rate.bytes_per_second));
}

}  // namespace

Result<void> check_routing(const Cluster& cluster) {
  const bool rails = cluster.fabric == FabricKind::rail_optimized && cluster.node.nics > 1;
  if (cluster.routing != RoutingPolicy::ecmp || !rails || cluster.tiers.size() > 1) return {};
  return fail_key("cluster.routing", "ecmp",
                  "needs a tier of the fabric above the leaves, which connects rails (allowed: with one tier, even)");
}

ClusterLinks::ClusterLinks(const Cluster& cluster, const std::string& architecture)
    : topology_(std::make_shared<const Topology>(
          cluster, cluster.routing == RoutingPolicy::ecmp ? FabricDetail::switches : FabricDetail::bundles)),
      gpus_(cluster.node.gpus),
      ports_(topology_->ports().count()) {
  GroupPlacement whole_domain;
  whole_domain.ranks_per_node = gpus_;
  gpu_capacity_ =
      rounded(std::max(1.0, 1e9 * nccl_gpu_rate(cluster.node, whole_domain, nccl_architecture(architecture))));
  fabric_base_ = cluster.nodes() * 2 * (gpus_ + ports_);
  count_ = fabric_base_ + topology_->link_count() - topology_->first_fabric_link();
  if (cluster.routing == RoutingPolicy::even) {
    bundles_ = &std::get<TreeFabric>(topology_->fabric());
    return;
  }
  count_ = fabric_base_;
  for (int link = topology_->first_fabric_link(); link < topology_->link_count(); ++link) {
    first_cables_.push_back(count_);
    count_ += topology_->link(link).cables;
  }
  first_cables_.push_back(count_);
}

std::pair<TopologyLink, std::int32_t> ClusterLinks::fabric_link(std::int32_t link) const {
  const auto of_fabric = [&](std::ptrdiff_t place) {
    return topology_->link(topology_->first_fabric_link() + static_cast<int>(place));
  };
  if (!hashed()) return {of_fabric(link - fabric_base_), -1};
  const auto first = std::upper_bound(first_cables_.begin(), first_cables_.end(), link) - 1;
  return {of_fabric(first - first_cables_.begin()), link - *first};
}

Bandwidth ClusterLinks::capacity(std::int32_t link) const {
  TRACECAST_ASSERT(link >= 0 && link < count_, "a link of the cluster");
  if (link < fabric_base_) {
    const std::int32_t local = link % (2 * (gpus_ + ports_));
    if (local < 2 * gpus_) return gpu_capacity_;
    return reached(topology_->ports().rate(link / (2 * (gpus_ + ports_)), (local - 2 * gpus_) % ports_));
  }
  const auto [all, cable] = fabric_link(link);
  if (cable < 0) return reached(all.capacity);
  return rounded(kWireEfficiency * static_cast<double>(all.capacity.bytes_per_second) / all.cables);
}

std::string ClusterLinks::name(std::int32_t link) const {
  TRACECAST_ASSERT(link >= 0 && link < count_, "a link of the cluster");
  if (link < fabric_base_) {
    const std::int32_t domain = link / (2 * (gpus_ + ports_));
    const std::int32_t local = link % (2 * (gpus_ + ports_));
    if (local < 2 * gpus_) return fmt::format("node {} gpu {} {}", domain, local % gpus_, local < gpus_ ? "out" : "in");
    const std::int32_t port = local - 2 * gpus_;
    return fmt::format("node {} port {} {}", domain, port % ports_, port < ports_ ? "out" : "in");
  }
  const auto [all, cable] = fabric_link(link);
  if (cable >= 0) {
    const std::string between = fmt::format("{} to {}", topology_->name(all.from), topology_->name(all.to));
    return all.cables == 1 ? between : fmt::format("{} cable {}", between, cable);
  }
  const bool up = all.from < all.to;
  const FabricSwitch below = topology_->vertex(up ? all.from : all.to).fabric_switch;
  const auto tier = static_cast<std::size_t>(below.tier);
  const bool rails = bundles_->levels()[tier].groups > 1;
  return fmt::format("{} {}{} {}", topology_->cluster().tiers[tier].name, below.unit,
                     rails ? fmt::format(" rail {}", below.group) : "", up ? "up" : "down");
}

void ClusterLinks::append_cables(NicId from, NicId to, int part, LinkPath& route) const {
  const auto seed = static_cast<std::uint64_t>(topology_->cluster().routing_seed);
  const PathSelector selector = hashed_selector(seed, from, to, static_cast<std::uint64_t>(part));
  const FabricPath path = topology_->path(from, to, selector);
  TRACECAST_ASSERT(path.connected, "any two NICs of a fabric are connected");
  int hop = 1 << 16;  // decisions between switches use smaller numbers
  for (const LinkLoad& load : path.loads) {
    const std::int32_t* first = first_cables_.data() + load.link;
    route.push_back(*first + selector.pick(first[1] - *first, hop++));
  }
}

int ClusterLinks::parts(int from, int to, int rail) const {
  const GpuCoord source = coord_of(from);
  const GpuCoord target = coord_of(to);
  if (!hashed() || source.node == target.node) return 1;
  const auto nics = [&](GpuCoord end) { return topology_->ports().nics(end.node, exit_of(end, rail).port).size(); };
  return static_cast<int>(std::max(nics(source), nics(target)));
}

void ClusterLinks::append_departure(GpuCoord source, NicPorts::Exit exit, LinkPath& route) const {
  if (exit.gpu != source.gpu) {
    route.push_back(gpu_out(source));
    route.push_back(gpu_in({source.node, exit.gpu}));
  }
  route.push_back(port_out(source.node, exit.port));
}

void ClusterLinks::append_arrival(GpuCoord target, NicPorts::Exit exit, LinkPath& route) const {
  route.push_back(port_in(target.node, exit.port));
  if (exit.gpu == target.gpu) return;
  route.push_back(gpu_out({target.node, exit.gpu}));
  route.push_back(gpu_in(target));
}

void ClusterLinks::append_route(int from, int to, int rail, LinkPath& route, int part) const {
  TRACECAST_ASSERT(from != to, "a flow goes from one rank to another");
  const GpuCoord source = coord_of(from);
  const GpuCoord target = coord_of(to);
  if (source.node == target.node) {
    route.push_back(gpu_out(source));
    route.push_back(gpu_in(target));
    return;
  }
  TRACECAST_ASSERT(ports_ > 0, "domains are connected by NICs");
  const NicPorts::Exit departure = exit_of(source, rail);
  const NicPorts::Exit arrival = exit_of(target, rail);
  append_departure(source, departure, route);
  const NicPorts& ports = topology_->ports();
  if (hashed()) {
    const auto nic = [&](GpuCoord end, int port) -> NicId {
      const std::vector<int>& nics = ports.nics(end.node, port);
      return {end.node, nics[static_cast<std::size_t>(part) % nics.size()]};
    };
    append_cables(nic(source, departure.port), nic(target, arrival.port), part, route);
  } else {
    const int start = bundles_->leaf(source.node, ports.rail_of(departure.port));
    const int end = bundles_->leaf(target.node, ports.rail_of(arrival.port));
    bundles_->append_bundles(start, end, fabric_base_, route);
  }
  append_arrival(target, arrival, route);
}

bool ClusterLinks::equal_domains() const { return topology_->cluster().faults.uniform(); }

bool ClusterLinks::is_translation(int first, int last, int domains) const {
  if (!equal_domains()) return false;
  const int from = domain_of(first);
  const int to = domain_of(last);
  if (from == to) return true;
  if (hashed()) return false;  // paths depend on the hash
  const auto leaf = [&](int domain) { return bundles_->leaf(domain, 0); };
  int ends[] = {leaf(from), leaf(to), leaf(from + domains), leaf(to + domains)};
  for (const TreeFabric::Level& tier : bundles_->levels()) {
    if (tier.up == 0 || domains % tier.nodes != 0) {
      const bool rails_meet_above = tier.up > 0 && tier.groups > 1;
      return ends[0] == ends[1] && ends[2] == ends[3] && !rails_meet_above;
    }
    for (int& end : ends) end = bundles_->planes()[static_cast<std::size_t>(end)].parent;
  }
  return true;
}

std::optional<LinkOrbits> ClusterLinks::orbits(int step, int block) const {
  const int domains = topology_->cluster().nodes();
  const bool equal_ports = equal_domains() && topology_->ports().equal();
  const bool moves_ports = gpus_ % step == 0 && ports_ * step % gpus_ == 0 && equal_ports && !hashed();
  if ((step != gpus_ || block > 1) && !moves_ports) return std::nullopt;
  std::span<const TreeFabric::Level> tiers;
  if (!hashed() && ports_ > 0) tiers = bundles_->levels();
  const auto has_whole_blocks = [&](const TreeFabric::Level& tier) { return tier.up == 0 || tier.nodes % block == 0; };
  if (domains % block != 0 || !std::all_of(tiers.begin(), tiers.end(), has_whole_blocks)) return std::nullopt;
  return LinkOrbits(gpus_, ports_, domains, step, block, tiers);
}

void ClusterLinks::append_to_network(int rank, int rail, LinkPath& route) const {
  append_departure(coord_of(rank), exit_of(coord_of(rank), rail), route);
}

void ClusterLinks::append_from_network(int rank, int rail, LinkPath& route) const {
  append_arrival(coord_of(rank), exit_of(coord_of(rank), rail), route);
}

}  // namespace tracecast
