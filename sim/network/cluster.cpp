#include "sim/network/cluster.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// The GPUs and NICs of one domain that a group uses.
struct Domain {
  int node = 0;
  std::span<const int> gpus;  ///< positions in the domain, ascending
  int nics = 0;               ///< distinct NICs next to these GPUs
};

/// The domains of a group, in ascending order.
class Domains {
 public:
  Domains(const Cluster& cluster, std::span<const int> ranks) {
    std::vector<int> sorted;
    if (!std::is_sorted(ranks.begin(), ranks.end())) {
      sorted.assign(ranks.begin(), ranks.end());
      std::sort(sorted.begin(), sorted.end());
      ranks = sorted;
    }
    TRACECAST_ASSERT(ranks.front() >= 0 && ranks.back() < cluster.world_size, "ranks are below the world size");
    gpus_.reserve(ranks.size());
    for (std::size_t i = 0; i < ranks.size();)
      i = repeats_domain(cluster, ranks, i) ? repeat_domain(cluster, ranks, i) : add_domain(cluster, ranks, i);
  }
  /// Of the group of all ranks.
  explicit Domains(const Cluster& cluster) {
    const int gpus = cluster.node.gpus;
    std::vector<int> ranks(static_cast<std::size_t>(std::min(gpus, cluster.world_size)));
    gpus_.reserve(2 * ranks.size());
    for (int first = 0; first < cluster.world_size; first += gpus) {
      if (first > 0 && first + gpus <= cluster.world_size) {
        domains_.push_back({first / gpus, domains_.front().gpus, domains_.front().nics});
        continue;
      }
      ranks.resize(static_cast<std::size_t>(std::min(gpus, cluster.world_size - first)));
      std::iota(ranks.begin(), ranks.end(), first);
      add_domain(cluster, ranks, 0);
    }
  }

  const std::vector<Domain>& all() const { return domains_; }

 private:
  /// Adds the domain of ranks[i]. Returns the index of the first rank in the next domain.
  std::size_t add_domain(const Cluster& cluster, std::span<const int> ranks, std::size_t i) {
    const std::size_t begin = gpus_.size();
    Domain domain{cluster.coord_of(ranks[i]).node, {}, 0};
    int counted = 0;  // NICs below this one
    for (; i < ranks.size(); ++i) {
      const GpuCoord coord = cluster.coord_of(ranks[i]);
      if (coord.node != domain.node) break;
      if (gpus_.size() > begin && gpus_.back() == coord.gpu) continue;
      gpus_.push_back(coord.gpu);
      const NicRange nics = nics_of_gpu(cluster.node, coord.gpu);
      domain.nics += std::max(0, nics.last - std::max(counted, nics.first));
      counted = nics.last;
    }
    domain.gpus = {gpus_.data() + begin, gpus_.size() - begin};
    domains_.push_back(domain);
    return i;
  }

  /// True if the next ranks are those of the domain before, moved by whole domains.
  bool repeats_domain(const Cluster& cluster, std::span<const int> ranks, std::size_t i) const {
    if (domains_.empty() || !cluster.faults.missing_gpus.empty()) return false;
    const std::size_t size = domains_.back().gpus.size();
    if (i < size || ranks.size() - i < size) return false;
    const int moved = ranks[i] - ranks[i - size];
    if (moved == 0 || moved % cluster.node.gpus != 0) return false;
    for (std::size_t k = 0; k < size; ++k)
      if (ranks[i + k] - ranks[i - size + k] != moved) return false;
    return i + size == ranks.size() || ranks[i + size] / cluster.node.gpus != ranks[i] / cluster.node.gpus;
  }

  std::size_t repeat_domain(const Cluster& cluster, std::span<const int> ranks, std::size_t i) {
    Domain domain = domains_.back();
    domain.node = ranks[i] / cluster.node.gpus;
    domains_.push_back(domain);
    return i + domain.gpus.size();
  }

  std::vector<int> gpus_;  // reserved once, because the domains point into it
  std::vector<Domain> domains_;
};

/// Failed NICs of a host whose GPU has others that work: those, in turn, take their place. [NIC of a host]; such a NIC then
/// counts as working.
std::vector<int> replaced_at_the_gpu(const NodeSpec& node, std::vector<bool>& works) {
  std::vector<int> instead(works.size());
  std::iota(instead.begin(), instead.end(), 0);
  for (int gpu = 0; gpu < node.gpus_per_host; ++gpu) {
    const NicRange own = nics_of_gpu(node, gpu);
    std::vector<int> working;
    for (int nic = own.first; nic < own.last; ++nic)
      if (works[static_cast<std::size_t>(nic)] && instead[static_cast<std::size_t>(nic)] == nic) working.push_back(nic);
    if (working.empty()) continue;
    std::size_t turn = 0;
    for (int nic = own.first; nic < own.last; ++nic) {
      if (works[static_cast<std::size_t>(nic)]) continue;
      instead[static_cast<std::size_t>(nic)] = working[turn++ % working.size()];
      works[static_cast<std::size_t>(nic)] = true;
    }
  }
  return instead;
}

/// [NIC of the domain] the NIC that carries its traffic.
std::vector<int> domain_nics_in_use(const NodeSpec& node, const std::vector<double>& speeds) {
  std::vector<int> used;
  for (int host = 0; host < node.hosts(); ++host) {
    std::vector<bool> works;
    for (int nic = 0; nic < node.nics; ++nic)
      works.push_back(speeds[static_cast<std::size_t>(host * node.nics + nic)] > 0);
    const std::vector<int> instead = replaced_at_the_gpu(node, works);
    for (const int nic : nics_in_use(works)) used.push_back(host * node.nics + instead[static_cast<std::size_t>(nic)]);
  }
  return used;
}

/// The number of healthy NICs that is equivalent to the NICs of these GPUs when all GPUs of the domain communicate:
/// NICs used x the smallest share of one.
double effective_nics(const NodeSpec& node, std::span<const int> gpus, const std::vector<double>& speeds) {
  std::vector<int> load(speeds.size());
  std::vector<int> own(speeds.size());
  const std::vector<int> used_nics = domain_nics_in_use(node, speeds);
  const auto count = [&](int gpu, std::vector<int>& users) {
    const NicRange nics = nics_of_gpu(node, gpu);
    for (int nic = nics.first; nic < nics.last; ++nic)
      ++users[static_cast<std::size_t>(used_nics[static_cast<std::size_t>(nic)])];
  };
  for (int gpu = 0; gpu < node.gpus; ++gpu) count(gpu, load);
  for (const int gpu : gpus) count(gpu, own);
  int used = 0;
  double worst = 1;
  for (std::size_t nic = 0; nic < speeds.size(); ++nic) {
    if (own[nic] == 0) continue;
    ++used;
    worst = std::min(worst, speeds[nic] * own[nic] / load[nic]);
  }
  return used * worst;
}

bool has_slow_nic(const Cluster& cluster, int node) {
  const auto& slow_nics = cluster.faults.slow_nics;
  return std::any_of(slow_nics.begin(), slow_nics.end(),
                     [&](const NetworkFaults::SlowNic& slow) { return slow.node == node; });
}

/// The share of its NICs in a domain that faults leave to a group.
double fault_share(const Cluster& cluster, const Domain& domain) {
  if ((cluster.faults.lost_rails.empty() && !has_slow_nic(cluster, domain.node)) || cluster.node.nics == 0) return 1;
  const std::vector<double> healthy(static_cast<std::size_t>(cluster.node.hosts() * cluster.node.nics), 1.0);
  return effective_nics(cluster.node, domain.gpus, nic_speeds(cluster, domain.node)) /
         effective_nics(cluster.node, domain.gpus, healthy);
}

bool same_gpus(const Domain& a, const Domain& b) { return std::ranges::equal(a.gpus, b.gpus); }

/// Shares out NICs to one of `sharing` groups: in each domain its local ones, at most its share of all.
void place_on_nics(const Cluster& cluster, const std::vector<Domain>& domains, int sharing, GroupPlacement& place) {
  const double all = static_cast<double>(cluster.node.nics) * cluster.node.gpus / cluster.node.gpus_per_host;
  std::vector<double> each_rank;  // [domain]
  each_rank.reserve(domains.size());
  place.nics = all / sharing;
  const Domain* before = nullptr;  // without a slow NIC of its own: its share is that of all with the same GPUs
  double share = 1;
  for (const Domain& domain : domains) {
    const bool slow_nic = has_slow_nic(cluster, domain.node);
    if (slow_nic || before == nullptr || !same_gpus(*before, domain)) share = fault_share(cluster, domain);
    before = slow_nic ? nullptr : &domain;
    const double own = std::min(all / sharing, static_cast<double>(domain.nics)) * share;
    place.nics = std::min(place.nics, own);
    each_rank.push_back(own / static_cast<double>(domain.gpus.size()));
  }
  place.nics_per_rank = *std::min_element(each_rank.begin(), each_rank.end());
  if (place.nics_per_rank <= 0) return;
  for (std::size_t i = 0; i < domains.size(); ++i) {
    const double outside = place.ranks - static_cast<double>(domains[i].gpus.size());
    place.outside_peers = std::max(place.outside_peers, outside * place.nics_per_rank / each_rank[i]);
  }
}

/// True if a ring over the domains can stay on rails: the group has the same GPUs in every domain.
bool same_rails(const std::vector<Domain>& domains) {
  return std::all_of(domains.begin(), domains.end(),
                     [&](const Domain& domain) { return same_gpus(domain, domains.front()); });
}

/// Mean distance in nodes between consecutive domains of the group.
double stride(const std::vector<Domain>& domains) {
  const int distance = domains.back().node - domains.front().node;
  return static_cast<double>(distance) / static_cast<double>(domains.size() - 1);
}

/// The share of nodes between the first and the last domain of the group that have GPUs of this job.
double present_share(const Cluster& cluster, const std::vector<Domain>& domains) {
  const auto& missing = cluster.faults.missing_gpus;
  const auto gone = std::count_if(missing.upper_bound(domains.front().node), missing.lower_bound(domains.back().node),
                                  [&](const auto& node) { return node.second >= cluster.node.gpus; });
  return 1 - static_cast<double>(gone) / (domains.back().node - domains.front().node);
}

double oversubscription(const Cluster& cluster, const FabricTier& tier) {
  const auto lost = cluster.faults.lost_uplinks.find(tier.name);
  return lost == cluster.faults.lost_uplinks.end() ? tier.oversubscription : tier.oversubscription / (1 - lost->second);
}

/// Of what a domain sends to all others alike, the share that leaves its unit of `nodes` nodes; mean over the domains.
double leaving_share(const std::vector<Domain>& domains, int nodes) {
  const auto all = static_cast<double>(domains.size());
  double inside = 0;
  for (std::size_t first = 0; first < domains.size();) {
    std::size_t last = first;
    while (last < domains.size() && domains[last].node / nodes == domains[first].node / nodes) ++last;
    inside += static_cast<double>((last - first) * (last - first - 1));
    first = last;
  }
  return 1 - inside / (all * (all - 1));
}

void place_in_fabric(const Cluster& cluster, const std::vector<Domain>& domains, GroupPlacement& place) {
  bool changes_rail = cluster.fabric == FabricKind::rail_optimized && !same_rails(domains);
  place.network_hops = 1;
  // Adjacent members of a group are at least one step of the torus apart.
  if (cluster.fabric == FabricKind::torus && !cluster.tiers.empty())
    place.extra_latency = cluster.tiers.front().hop_latency;
  double oversubscribed = 1;  // uplinks of a tier against the NICs below
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0) break;
    const bool leaves = domains.front().node / tier.nodes != domains.back().node / tier.nodes;
    if (!leaves && !changes_rail) break;
    changes_rail = false;  // rails meet one level above the leaves
    place.network_hops += 2;
    place.extra_latency += tier.hop_latency;
    oversubscribed *= oversubscription(cluster, tier);
    if (!leaves) continue;
    place.all_to_all_slowdown =
        std::max(place.all_to_all_slowdown, oversubscribed * leaving_share(domains, tier.nodes));
    const double crossing = std::min(1.0, stride(domains) / tier.nodes) * present_share(cluster, domains);
    if (oversubscribed * crossing < place.oversubscription * place.crossing) continue;
    place.oversubscription = oversubscribed;
    place.crossing = crossing;
  }
}

}  // namespace

GpuCoord Cluster::coord_with_missing_gpus(int rank) const {
  GpuCoord coord{0, rank};
  for (const auto& [damaged, missing] : faults.missing_gpus) {
    const int whole = std::min(damaged - coord.node, coord.gpu / node.gpus);
    coord = {coord.node + whole, coord.gpu - whole * node.gpus};
    if (coord.node < damaged || coord.gpu < node.gpus - missing)
      return {coord.node + coord.gpu / node.gpus, coord.gpu % node.gpus};
    coord = {coord.node + 1, coord.gpu - (node.gpus - missing)};
  }
  return {coord.node + coord.gpu / node.gpus, coord.gpu % node.gpus};
}

std::vector<ImpossibleValue> impossible_values(const Cluster& cluster) {
  constexpr Bandwidth kFastestGpuLink{1'800'000'000'000};  // NVLink 5 has 900 GB/s
  constexpr Bandwidth kFastestNic{200'000'000'000};        // NICs of 800 Gb/s have 100 GB/s
  const NodeSpec& node = cluster.node;
  std::vector<ImpossibleValue> found;
  if (node.gpu_link > kFastestGpuLink)
    found.push_back(
        {"node.gpu_link", fmt::format("no GPU has links of {} in one direction (the sum of both directions, or "
                                      "bits?)",
                                      to_text(node.gpu_link))});
  if (node.nics > 0 && node.nic_rate > kFastestNic)
    found.push_back({"node.nic_rate", fmt::format("no NIC has {} in one direction (the rate of several NICs, or bits?)",
                                                  to_text(node.nic_rate))});
  const bool network = node.nics > 0 && cluster.fabric != FabricKind::none;
  if (!network && cluster.nodes() > 1)
    found.push_back({"node.nics", fmt::format("{} nodes, and no network between them", cluster.nodes())});
  return found;
}

NicRange nics_of_gpu(const NodeSpec& node, int gpu) {
  const int host = gpu / node.gpus_per_host;
  const int local = gpu % node.gpus_per_host;
  const int first = local * node.nics / node.gpus_per_host;
  const int last = std::max(first + 1, (local + 1) * node.nics / node.gpus_per_host);
  return {host * node.nics + first, host * node.nics + last};
}

std::vector<double> nic_speeds(const Cluster& cluster, int node) {
  std::vector<double> speeds(static_cast<std::size_t>(cluster.node.hosts() * cluster.node.nics), 1.0);
  for (std::size_t nic = 0; nic < speeds.size(); ++nic)
    for (const int rail : cluster.faults.lost_rails)
      if (static_cast<int>(nic) % cluster.node.nics == rail) speeds[nic] = 0;
  for (const NetworkFaults::SlowNic& slow : cluster.faults.slow_nics)
    if (slow.node == node) speeds[static_cast<std::size_t>(slow.nic)] *= slow.speed;
  return speeds;
}

std::vector<int> nics_in_use(const std::vector<bool>& works) {
  const auto count = static_cast<int>(works.size());
  const auto working = [&](int nic) { return works[static_cast<std::size_t>(nic)]; };
  std::vector<int> users(works.begin(), works.end());
  std::vector<int> used(works.size());
  for (int nic = 0; nic < count; ++nic) {
    int best = nic;
    for (int step = 1; step < count && !working(nic); ++step) {
      const int next = (nic + step) % count;
      const bool fewer = users[static_cast<std::size_t>(next)] < users[static_cast<std::size_t>(best)];
      if (working(next) && (!working(best) || fewer)) best = next;
    }
    TRACECAST_ASSERT(working(best), "every host keeps a NIC");
    used[static_cast<std::size_t>(nic)] = best;
    if (best != nic) ++users[static_cast<std::size_t>(best)];
  }
  return used;
}

namespace {

GroupPlacement place(const Cluster& cluster, const std::vector<Domain>& domains, int ranks, int sharing) {
  GroupPlacement place;
  place.ranks = ranks;
  place.nodes = static_cast<int>(domains.size());
  for (const Domain& domain : domains)
    place.ranks_per_node = std::max(place.ranks_per_node, static_cast<int>(domain.gpus.size()));
  place_on_nics(cluster, domains, sharing, place);
  if (place.nodes > 1) place_in_fabric(cluster, domains, place);
  return place;
}

}  // namespace

GroupPlacement place(const Cluster& cluster, std::span<const int> ranks, int sharing) {
  TRACECAST_ASSERT(!ranks.empty(), "a group has at least one rank");
  TRACECAST_ASSERT(sharing >= 1, "a group is one of its siblings");
  return place(cluster, Domains(cluster, ranks).all(), static_cast<int>(ranks.size()), sharing);
}

GroupPlacement place_world(const Cluster& cluster) {
  TRACECAST_ASSERT(cluster.faults.missing_gpus.empty(), "domains are full but for the last");
  return place(cluster, Domains(cluster).all(), cluster.world_size, 1);
}

}  // namespace tracecast
