#include "sim/network/cluster.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/result.hpp"
#include "sim/network/double_tree.hpp"

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
  std::vector<int> used(speeds.size());
  std::iota(used.begin(), used.end(), 0);
  if (std::ranges::find(speeds, 0.0) == speeds.end()) return used;
  used.clear();
  for (int host = 0; host < node.hosts(); ++host) {
    std::vector<bool> works;
    for (int nic = 0; nic < node.nics; ++nic)
      works.push_back(speeds[static_cast<std::size_t>(host * node.nics + nic)] > 0);
    const std::vector<int> instead = replaced_at_the_gpu(node, works);
    for (const int nic : nics_in_use(works)) used.push_back(host * node.nics + instead[static_cast<std::size_t>(nic)]);
  }
  return used;
}

/// How the GPUs of one domain use its NICs while all of them communicate.
class NicUse {
 public:
  NicUse(const NodeSpec& node, std::vector<double> speeds)
      : node_(node), speeds_(std::move(speeds)), used_nics_(domain_nics_in_use(node, speeds_)) {
    std::vector<int> gpus(static_cast<std::size_t>(node.gpus));
    std::iota(gpus.begin(), gpus.end(), 0);
    load_ = users(gpus);
  }

  /// [NIC of the domain] how often these GPUs use it.
  std::vector<int> users(std::span<const int> gpus) const {
    std::vector<int> users(speeds_.size());
    for (const int gpu : gpus) {
      const NicRange nics = nics_of_gpu(node_, gpu);
      for (int nic = nics.first; nic < nics.last; ++nic)
        ++users[static_cast<std::size_t>(used_nics_[static_cast<std::size_t>(nic)])];
    }
    return users;
  }

  int working(const std::vector<int>& own) const {
    return static_cast<int>(std::count_if(own.begin(), own.end(), [](int users) { return users > 0; }));
  }

  /// The number of healthy NICs that is equivalent to NICs with `own` users of a group: NICs used x the smallest share of one.
  double equivalent(const std::vector<int>& own) const {
    return working(own) * smallest_share(own, [this](std::size_t nic) { return load_[nic]; });
  }

  /// The same for `own`, while the users `sending` of a group send, and those of each of its siblings.
  double equivalent(const std::vector<int>& own, const std::vector<int>& sending, int sharing) const {
    return working(own) *
           smallest_share(own, [&](std::size_t nic) { return std::min(load_[nic], sending[nic] * sharing); });
  }
  double of_group(const std::vector<int>& own, int sharing) const { return equivalent(own, own, sharing); }
  double of_gpu(int gpu, const std::vector<int>& sending, int sharing) const {
    return equivalent(users({&gpu, 1}), sending, sharing);
  }
  double of_gpu_alone(int gpu, int sharing) const { return of_group(users({&gpu, 1}), sharing); }

 private:
  template <class Load>
  double smallest_share(const std::vector<int>& own, Load load) const {
    double worst = 1;
    for (std::size_t nic = 0; nic < own.size(); ++nic)
      if (own[nic] > 0) worst = std::min(worst, speeds_[nic] * own[nic] / load(nic));
    return worst;
  }

  const NodeSpec& node_;
  std::vector<double> speeds_;  // [NIC of the domain]
  std::vector<int> used_nics_;  // [NIC of the domain] the one that carries its traffic
  std::vector<int> load_;       // [NIC of the domain] by all GPUs
};

bool has_slow_nic(const Cluster& cluster, int node) {
  const auto& slow_nics = cluster.faults.slow_nics;
  return std::any_of(slow_nics.begin(), slow_nics.end(),
                     [&](const NetworkFaults::SlowNic& slow) { return slow.node == node; });
}

/// What a group has of the NICs of one domain.
struct DomainNics {
  double together = 0;  ///< local ones, at most the group's share of all
  int working = 0;
  double of_a_rank = 0;      ///< GroupPlacement::nics_per_rank
  double of_a_ring_end = 0;  ///< GroupPlacement::ring_end_nics
};

/// `use`: of its NICs by all its GPUs.
DomainNics share_of_nics(const Cluster& cluster, const Domain& domain, int sharing, const NicUse& use) {
  const NodeSpec& node = cluster.node;
  const std::vector<int> own = use.users(domain.gpus);
  const double all = static_cast<double>(node.nics) * node.gpus / node.gpus_per_host;
  DomainNics nics;
  nics.together = std::min(all / sharing, static_cast<double>(domain.nics));
  const bool uneven = node.nics % node.gpus_per_host != 0 && node.gpus_per_host % node.nics != 0;
  const bool faulty = !cluster.faults.lost_rails.empty() || has_slow_nic(cluster, domain.node);
  std::optional<NicUse> healthy;
  if (uneven || faulty)
    healthy.emplace(node, std::vector<double>(static_cast<std::size_t>(node.hosts() * node.nics), 1.0));
  // Where some NICs have more GPUs than others, a group has its own, not the mean.
  if (uneven) nics.together = std::min(nics.together, healthy->of_group(healthy->users(domain.gpus), sharing));
  nics.working = std::min(use.working(own), static_cast<int>(nics.together + 1e-9));
  if (faulty) nics.together *= use.equivalent(own) / healthy->equivalent(healthy->users(domain.gpus));
  nics.of_a_rank = use.of_gpu(domain.gpus.front(), own, sharing);
  for (const int gpu : domain.gpus) nics.of_a_rank = std::min(nics.of_a_rank, use.of_gpu(gpu, own, sharing));
  nics.of_a_ring_end = use.of_gpu_alone(domain.gpus.front(), sharing);
  return nics;
}

bool same_gpus(const Domain& a, const Domain& b) { return std::ranges::equal(a.gpus, b.gpus); }

/// Shares out NICs to one of `sharing` groups.
void place_on_nics(const Cluster& cluster, const std::vector<Domain>& domains, int sharing, GroupPlacement& place) {
  if (cluster.node.nics == 0) return;
  constexpr int kNoNode = -1;
  const NicUse usual(cluster.node, nic_speeds(cluster, kNoNode));
  const auto share_of = [&](const Domain& domain, bool slow_nic) {
    if (!slow_nic) return share_of_nics(cluster, domain, sharing, usual);
    return share_of_nics(cluster, domain, sharing, {cluster.node, nic_speeds(cluster, domain.node)});
  };
  std::vector<DomainNics> shares;  // [domain]
  shares.reserve(domains.size());
  const Domain* before = nullptr;  // without a slow NIC of its own: its share is that of all with the same GPUs
  for (const Domain& domain : domains) {
    const bool slow_nic = has_slow_nic(cluster, domain.node);
    const bool same = !slow_nic && before != nullptr && same_gpus(*before, domain);
    shares.push_back(same ? shares.back() : share_of(domain, slow_nic));
    before = slow_nic ? nullptr : &domain;
  }
  const auto fewest = [&](auto member) { return std::ranges::min(shares, {}, member).*member; };
  place.nics = fewest(&DomainNics::together);
  place.working_nics = fewest(&DomainNics::working);
  place.nics_per_rank = fewest(&DomainNics::of_a_rank);
  place.ring_end_nics = fewest(&DomainNics::of_a_ring_end);
  if (place.nics_per_rank <= 0) return;
  for (std::size_t i = 0; i < domains.size(); ++i) {
    const double outside = place.ranks - static_cast<double>(domains[i].gpus.size());
    place.outside_peers = std::max(place.outside_peers, outside * place.nics_per_rank / shares[i].of_a_rank);
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

/// What the double tree over the domains sends out of that unit of `nodes` nodes from which it sends most, over what a node sends
/// at most. An edge carries half of the buffer each way.
double leaving_in_trees(const std::vector<Domain>& domains, int nodes) {
  const auto count = static_cast<int>(domains.size());
  const auto unit_of = [&](int place) { return domains[static_cast<std::size_t>(place)].node / nodes; };
  std::map<int, int> edges;  // [unit]
  for (int place = 0; place < count; ++place)
    for (const auto tree : {first_tree, second_tree}) {
      const int parent = tree(place, count).parent;
      if (parent < 0 || unit_of(parent) == unit_of(place)) continue;
      ++edges[unit_of(place)];
      ++edges[unit_of(parent)];
    }
  int most = 0;
  for (const auto& [unit, leaving] : edges) most = std::max(most, leaving);
  return 0.5 * most / through_trees(count);
}

void place_in_fabric(const Cluster& cluster, const std::vector<Domain>& domains, GroupPlacement& place) {
  bool changes_rail = cluster.fabric == FabricKind::rail_optimized && !same_rails(domains);
  // Adjacent members of a group are at least one step of the torus apart.
  if (cluster.fabric == FabricKind::torus && !cluster.tiers.empty())
    place.extra_latency = cluster.tiers.front().hop_latency;
  double oversubscribed = 1;  // uplinks of a tier against the NICs below
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0) break;
    const bool leaves = domains.front().node / tier.nodes != domains.back().node / tier.nodes;
    if (!leaves && !changes_rail) break;
    changes_rail = false;  // rails meet one level above the leaves
    place.extra_latency += tier.hop_latency;
    oversubscribed *= oversubscription(cluster, tier);
    if (!leaves) continue;
    place.all_to_all_slowdown =
        std::max(place.all_to_all_slowdown, oversubscribed * leaving_share(domains, tier.nodes));
    const double crossing = std::min(1.0, stride(domains) / tier.nodes) * present_share(cluster, domains);
    if (oversubscribed > 1)
      place.tree_slowdown =
          std::max(place.tree_slowdown, oversubscribed * crossing * leaving_in_trees(domains, tier.nodes));
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
