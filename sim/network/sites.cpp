#include "sim/network/sites.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tracecast {
namespace {

bool has_tree(const Cluster& cluster) {
  return cluster.fabric == FabricKind::rail_optimized || cluster.fabric == FabricKind::fat_tree;
}

}  // namespace

std::string sites_error(const Cluster& cluster, const Sites& sites) {
  const int gpus = cluster.node.gpus;
  if (cluster.world_size % (sites.count * gpus) != 0)
    return fmt::format("does not divide the {} GPUs of the job into sites of whole nodes ({} GPUs each)",
                       cluster.world_size, gpus);
  if (!has_tree(cluster))
    return fmt::format(
        "needs a fabric that ends at a site (allowed: topologies with fabric rail-optimized or fat-tree)");
  const int nodes = cluster.nodes() / sites.count;
  for (const FabricTier& tier : cluster.tiers)
    if (tier.nodes > 0 && tier.nodes < nodes && nodes % tier.nodes != 0)
      return fmt::format("makes sites of {} nodes, which are not whole units of tier {} ({} nodes)", nodes, tier.name,
                         tier.nodes);
  return {};
}

bool spans_sites(const Cluster& cluster, const GroupPlacement& group) {
  return cluster.sites.count > 1 && group.nodes > 1 && group.extra_latency >= cluster.sites.wan_latency;
}

int site_of(const Cluster& cluster, int rank) {
  return cluster.node_of(rank) / (cluster.nodes() / cluster.sites.count);
}

void use_sites(Cluster& cluster, const Sites& sites) {
  const int nodes = cluster.nodes() / sites.count;
  double rate = static_cast<double>(nodes) * cluster.node.hosts() * cluster.node.nics *
                static_cast<double>(cluster.node.nic_rate.bytes_per_second);
  std::vector<FabricTier> tiers;
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0 || tier.nodes >= nodes) break;
    tiers.push_back(tier);
    rate /= tier.oversubscription;
  }
  if (tiers.empty() && cluster.fabric == FabricKind::rail_optimized) tiers.push_back({"leaf", nodes, 1, {}});
  const double long_links = static_cast<double>(sites.wan_rate.bytes_per_second);
  tiers.push_back({"site", nodes, std::max(1.0, rate / long_links), sites.wan_latency});
  tiers.push_back({"wan", 0, 1, {}});
  cluster.tiers = std::move(tiers);
  cluster.sites = sites;
}

void renew_sites(Cluster& cluster) {
  if (cluster.sites.count > 1) use_sites(cluster, Sites(cluster.sites));
}

}  // namespace tracecast
