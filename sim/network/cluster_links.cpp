#include "sim/network/cluster_links.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/network/nccl_tuning.hpp"

namespace tracecast {
namespace {

Bandwidth rounded(double bytes_per_second) { return {std::llround(bytes_per_second)}; }

}  // namespace

ClusterLinks::ClusterLinks(const Cluster& cluster, const std::string& architecture)
    : gpus_(cluster.node.gpus), rail_optimized_(cluster.fabric == "rail-optimized") {
  const int nics = cluster.node.nics * cluster.node.gpus / std::max(1, cluster.node.gpus_per_host);
  ports_ = std::min(nics, gpus_);
  GroupPlacement whole_domain;
  whole_domain.ranks_per_node = gpus_;
  gpu_capacity_ =
      rounded(std::max(1.0, 1e9 * nccl_gpu_rate(cluster.node, whole_domain, nccl_architecture(architecture))));
  const double wire = kWireEfficiency * static_cast<double>(cluster.node.nic_rate.bytes_per_second) * nics;
  port_capacity_ = rounded(ports_ > 0 ? wire / ports_ : 0);
  tiers_base_ = count_ = cluster.nodes() * 2 * (gpus_ + ports_);
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0 || ports_ == 0) break;
    const int planes = tiers_.empty() && rail_optimized_ ? ports_ : 1;
    const int units = (cluster.nodes() + tier.nodes - 1) / tier.nodes;
    tiers_.push_back(
        {tier.name, tier.nodes, planes, count_, rounded(wire * tier.nodes / planes / tier.oversubscription)});
    count_ += 2 * units * planes;
  }
}

Bandwidth ClusterLinks::capacity(std::int32_t link) const {
  TRACECAST_ASSERT(link >= 0 && link < count_, "a link of the cluster");
  if (link < tiers_base_) return link % (2 * (gpus_ + ports_)) < 2 * gpus_ ? gpu_capacity_ : port_capacity_;
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

int ClusterLinks::home_of(int domain, int port) const { return domain * gpus_ + (port * gpus_ + ports_ - 1) / ports_; }

void ClusterLinks::append_climb(int from_domain, int from_port, int to_domain, int to_port, LinkPath& route) const {
  bool changes_rail = rail_optimized_ && from_port != to_port;
  for (const Tier& tier : tiers_) {
    if (from_domain / tier.nodes == to_domain / tier.nodes && !changes_rail) return;
    changes_rail = false;
    route.push_back(up(tier, from_domain, from_port));
    route.push_back(up(tier, to_domain, to_port) + 1);
  }
}

void ClusterLinks::append_forward(int from, int to, LinkPath& route) const {
  if (port_of(from) == port_of(to)) return;
  route.push_back(gpu_out(from));
  route.push_back(gpu_in(to));
}

void ClusterLinks::append_route(int from, int to, int rail, LinkPath& route) const {
  TRACECAST_ASSERT(from != to, "a flow goes from one rank to another");
  const int from_domain = domain_of(from);
  const int to_domain = domain_of(to);
  if (from_domain == to_domain) {
    route.push_back(gpu_out(from));
    route.push_back(gpu_in(to));
    return;
  }
  TRACECAST_ASSERT(ports_ > 0, "domains are joined by NICs");
  const int from_port = rail < 0 ? port_of(from) : rail;
  const int to_port = rail < 0 ? port_of(to) : rail;
  append_forward(from, home_of(from_domain, from_port), route);
  route.push_back(port_out(from_domain, from_port));
  append_climb(from_domain, from_port, to_domain, to_port, route);
  route.push_back(port_in(to_domain, to_port));
  append_forward(home_of(to_domain, to_port), to, route);
}

void ClusterLinks::append_to_network(int rank, int rail, LinkPath& route) const {
  const int port = rail < 0 ? port_of(rank) : rail;
  append_forward(rank, home_of(domain_of(rank), port), route);
  route.push_back(port_out(domain_of(rank), port));
}

void ClusterLinks::append_from_network(int rank, int rail, LinkPath& route) const {
  const int port = rail < 0 ? port_of(rank) : rail;
  route.push_back(port_in(domain_of(rank), port));
  append_forward(home_of(domain_of(rank), port), rank, route);
}

}  // namespace tracecast
