#include "sim/network/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// The NICs next to GPU `local` of its domain: indices [first, last) among the NICs of the domain.
std::pair<int, int> nics_of_gpu(const NodeSpec& node, int local) {
  const int host = local / node.gpus_per_host;
  const int gpu = local % node.gpus_per_host;
  const int first = gpu * node.nics / node.gpus_per_host;
  const int last = std::max(first + 1, (gpu + 1) * node.nics / node.gpus_per_host);
  return {host * node.nics + first, host * node.nics + last};
}

/// What a group uses of one domain.
struct Domain {
  std::set<int> gpus;  ///< position in the domain
  std::set<int> nics;
};

std::map<int, Domain> domains_of(const Cluster& cluster, std::span<const int> ranks) {
  std::map<int, Domain> domains;
  for (const int rank : ranks) {
    TRACECAST_ASSERT(rank >= 0 && rank < cluster.world_size, "a rank lies outside the cluster");
    Domain& domain = domains[cluster.node_of(rank)];
    const int local = rank % cluster.node.gpus;
    domain.gpus.insert(local);
    const auto [first, last] = nics_of_gpu(cluster.node, local);
    for (int nic = first; nic < last; ++nic) domain.nics.insert(nic);
  }
  return domains;
}

/// NICs of a domain that one of `sharing` groups can call its own: its local ones, at most its share of all.
double own_nics(const Cluster& cluster, const std::map<int, Domain>& domains, int sharing) {
  const double all = static_cast<double>(cluster.node.nics) * cluster.node.gpus / cluster.node.gpus_per_host;
  double own = all / sharing;
  for (const auto& [node, domain] : domains) own = std::min(own, static_cast<double>(domain.nics.size()));
  return own;
}

/// True if a ring over the domains can stay on rails: every domain takes part with the same GPUs.
bool same_rails(const std::map<int, Domain>& domains) {
  return std::all_of(domains.begin(), domains.end(),
                     [&](const auto& item) { return item.second.gpus == domains.begin()->second.gpus; });
}

/// Distance in nodes between neighbours of the group, on average.
double stride(const std::map<int, Domain>& domains) {
  const int distance = domains.rbegin()->first - domains.begin()->first;
  return static_cast<double>(distance) / static_cast<double>(domains.size() - 1);
}

void place_in_fabric(const Cluster& cluster, const std::map<int, Domain>& domains, GroupPlacement& place) {
  bool changes_rail = cluster.fabric == "rail-optimized" && !same_rails(domains);
  place.network_hops = 1;
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0) break;
    const bool leaves = domains.begin()->first / tier.nodes != domains.rbegin()->first / tier.nodes;
    if (!leaves && !changes_rail) break;
    changes_rail = false;  // rails meet one level above the leaves
    place.network_hops += 2;
    place.extra_latency += tier.hop_latency;
    if (!leaves) continue;
    const double crossing = std::min(1.0, stride(domains) / tier.nodes);
    if (tier.oversubscription * crossing < place.oversubscription * place.crossing) continue;
    place.oversubscription = tier.oversubscription;
    place.crossing = crossing;
  }
}

}  // namespace

GroupPlacement place(const Cluster& cluster, std::span<const int> ranks, int sharing) {
  TRACECAST_ASSERT(!ranks.empty(), "a group has at least one rank");
  TRACECAST_ASSERT(sharing >= 1, "a group shares with itself at least");
  const std::map<int, Domain> domains = domains_of(cluster, ranks);
  GroupPlacement place;
  place.ranks = static_cast<int>(ranks.size());
  place.nodes = static_cast<int>(domains.size());
  for (const auto& [node, domain] : domains)
    place.ranks_per_node = std::max(place.ranks_per_node, static_cast<int>(domain.gpus.size()));
  place.nics = own_nics(cluster, domains, sharing);
  if (place.nodes > 1) place_in_fabric(cluster, domains, place);
  return place;
}

}  // namespace tracecast
