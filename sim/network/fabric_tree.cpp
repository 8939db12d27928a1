#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {
namespace {

/// Rounded to an int, at most 10^9.
int whole(double count) { return static_cast<int>(std::lround(std::min(count, 1e9))); }

/// Number of leaves that the NICs of one host are attached to.
int rails_of(const Cluster& cluster, FabricDetail detail) {
  if (cluster.fabric != FabricKind::rail_optimized) return 1;
  const int nics = std::max(1, cluster.node.nics);
  return detail == FabricDetail::bundles ? std::min(nics, cluster.node.gpus / cluster.node.hosts()) : nics;
}

}  // namespace

std::vector<FabricTier> used_tiers(const Cluster& cluster, FabricDetail detail) {
  std::vector<FabricTier> tiers = cluster.tiers;
  if (tiers.empty() || (detail == FabricDetail::bundles && tiers.back().nodes > 0)) tiers.emplace_back();
  std::size_t used = 1;
  while (used < tiers.size()) {
    const int below = tiers[used - 1].nodes;
    const bool covered = below == 0 || below >= cluster.nodes();
    if (covered && (used > 1 || cluster.fabric != FabricKind::rail_optimized)) break;
    ++used;
  }
  tiers.resize(used);
  return tiers;
}

namespace {

/// How two planes are connected: in groups where one number of switches divides the other, else all to all. Pairs of links
/// are numbered by switch below, then by switch above.
struct Cabling {
  int below = 1;
  int above = 1;

  bool fans_out() const { return above % below == 0; }
  bool fans_in() const { return !fans_out() && below % above == 0; }
  /// A switch below is connected to the switches above from first() on, count() of them.
  int count() const { return fans_out() ? above / below : fans_in() ? 1 : above; }
  int first(int index) const { return fans_out() ? index * count() : fans_in() ? index / (below / above) : 0; }
  int pairs() const { return below * count(); }
  int pair(int index, int upper) const { return index * count() + upper - first(index); }
  /// A switch above is connected to the switches below from first_below() on, count_below() of them.
  int count_below() const { return fans_out() ? 1 : fans_in() ? below / above : below; }
  int first_below(int upper) const { return fans_out() ? upper / count() : fans_in() ? upper * count_below() : 0; }
};

template <class List>
auto& at(List& list, int index) {
  return list[static_cast<std::size_t>(index)];
}

}  // namespace

void TreeFabric::add_levels(const Cluster& cluster, FabricDetail detail) {
  const std::vector<FabricTier> tiers = used_tiers(cluster, detail);
  const int nodes = std::max(1, cluster.nodes());
  double cables_below = 0;  // upwards, of one plane below
  int ports = detail == FabricDetail::bundles ? 0 : cluster.shape.switch_ports;
  const bool sized = ports > 0;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const FabricTier& tier = tiers[i];
    const bool top = i + 1 == tiers.size();
    Level level;
    level.nodes = top ? (tier.nodes > 0 && i == 0 ? std::max(tier.nodes, nodes) : nodes) : tier.nodes;
    level.units = top ? 1 : ceil_div(nodes, tier.nodes);
    level.hop_latency = tier.hop_latency;
    double cables_down = static_cast<double>(level.nodes) * cluster.node.hosts() * std::max(1, cluster.node.nics);
    double down = 0;
    if (i == 0) {
      // Bundles of rails without a tier above meet at the leaf.
      level.groups = top && detail == FabricDetail::bundles ? 1 : rails_of(cluster, detail);
      cables_down /= level.groups;
      down = static_cast<double>(cluster.node.nic_rate.bytes_per_second) * cables_down;
      if (ports == 0) ports = whole(std::ceil(cables_down * (1 + 1 / tier.oversubscription)));
    } else {
      const Level& below = levels_.back();
      const int planes = (top ? below.units : ceil_div(level.nodes, below.nodes)) * below.groups;
      cables_down = planes * cables_below;
      const double down_ports = top ? ports : std::max(1.0, std::floor(ports / (1 + 1 / tier.oversubscription)));
      const int all = std::max(1, whole(std::ceil(cables_down / down_ports - 1e-9)));
      // A switch below reaches at most one switch above per cable.
      const int reach = std::max(1, whole(cables_below));
      const bool blocks = sized && !top && i == 1;
      level.groups = blocks ? std::min(ceil_div(all, reach), planes) : 1;
      level.devices = blocks ? ceil_div(all, level.groups) : std::min(all, reach);
      cables_down /= level.groups;
      down = below.up * planes / level.groups;
    }
    if (!top) {
      level.up = down / tier.oversubscription;
      level.up_cables = std::max(1.0, cables_down / tier.oversubscription);
      cables_below = level.up_cables;
    }
    levels_.push_back(level);
  }
}

TreeFabric::TreeFabric(const Cluster& cluster, FabricDetail detail) {
  add_levels(cluster, detail);
  unit_nodes_ = levels_.front().nodes;
  leaf_groups_ = levels_.front().groups;
  nics_per_host_ = std::max(1, cluster.node.nics);
  add_planes(detail);
  add_links();
}

void TreeFabric::add_planes(FabricDetail detail) {
  int first_above = 0;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const Level& level = levels_[i];
    first_above += level.units * level.groups;
    for (int unit = 0; unit < level.units; ++unit)
      for (int group = 0; group < level.groups; ++group) {
        Plane plane{static_cast<int>(i), unit, group, level.devices, 1, switch_count_, -1, 0};
        if (detail == FabricDetail::switches) plane.switches = level.devices;
        if (i + 1 < levels_.size()) {
          const Level& above = levels_[i + 1];
          const int above_unit = static_cast<int>(static_cast<std::int64_t>(unit) * level.nodes / above.nodes);
          // The planes of a unit are assigned to the blocks above, rails first.
          const int units = ceil_div(above.nodes, level.nodes);
          const std::int64_t place = static_cast<std::int64_t>(group) * units + unit % units;
          const int block = static_cast<int>(place * above.groups / (static_cast<std::int64_t>(level.groups) * units));
          plane.parent = first_above + above_unit * above.groups + block;
        }
        switch_count_ += plane.switches;
        planes_.push_back(plane);
      }
  }
}

void TreeFabric::add_links() {
  for (Plane& plane : planes_) {
    if (plane.parent < 0) continue;
    const Plane& parent = at(planes_, plane.parent);
    const Level& level = at(levels_, plane.tier);
    const Cabling cabling{plane.switches, parent.switches};
    plane.first_link = static_cast<int>(links_.size());
    const Bandwidth capacity{std::llround(level.up) / cabling.pairs()};
    const int cables = std::max(1, whole(level.up_cables / cabling.pairs()));
    const Duration up{level.hop_latency.picoseconds / 2};
    for (int pair = 0; pair < cabling.pairs(); ++pair) {
      const int below = pair / cabling.count();
      const int from = plane.first_switch + below;
      const int to = parent.first_switch + cabling.first(below) + pair % cabling.count();
      links_.push_back({from, to, plane.tier, cables, capacity, up});
      links_.push_back({to, from, plane.tier, cables, capacity, level.hop_latency - up});
    }
  }
}

const TreeFabric::Plane& TreeFabric::plane_of(int fabric_switch) const {
  const auto after = std::upper_bound(planes_.begin(), planes_.end(), fabric_switch,
                                      [](int index, const Plane& plane) { return index < plane.first_switch; });
  return *(after - 1);
}

FabricSwitch TreeFabric::fabric_switch(int index) const {
  const Plane& plane = plane_of(index);
  const int devices = plane.switches == plane.devices ? 1 : plane.devices;
  return {plane.tier, plane.unit, plane.group, index - plane.first_switch, devices};
}

int TreeFabric::attached(int node, int nic) const {
  const int rail = ((nic % nics_per_host_ + 1) * leaf_groups_ - 1) / nics_per_host_;  // as nics_of_gpu
  return at(planes_, node / unit_nodes_ * leaf_groups_ + rail).first_switch;
}

namespace {

using Planes = std::vector<const TreeFabric::Plane*>;

Cabling cabling(const Planes& planes, int i) { return {at(planes, i)->switches, at(planes, i + 1)->switches}; }

/// A flow up the planes `left` from its leaf, and down those of `right` to the other leaf; both end in the plane where they
/// meet. Each switch splits the flow evenly over the next switches. A leaf plane has one switch, so every switch above it
/// leads to the other leaf.
std::vector<LinkLoad> even_split(const Planes& left, const Planes& right) {
  const int top = static_cast<int>(left.size()) - 1;
  std::vector<LinkLoad> loads;
  std::vector<std::int64_t> weights{kWholeFlow};  // [switch] of the plane that has been reached
  const auto add = [&loads](std::vector<std::int64_t>& next, int target, int link, std::int64_t weight) {
    if (weight == 0) return;
    loads.push_back({link, weight});
    at(next, target) += weight;
  };
  for (int i = 0; i < top; ++i) {
    const Cabling joined = cabling(left, i);
    std::vector<std::int64_t> higher(static_cast<std::size_t>(joined.above), 0);
    for (int s = 0; s < joined.below; ++s)
      for (int t = joined.first(s); t < joined.first(s) + joined.count(); ++t)
        add(higher, t, at(left, i)->first_link + 2 * joined.pair(s, t), at(weights, s) / joined.count());
    weights = std::move(higher);
  }
  for (int i = top; i-- > 0;) {
    const Cabling joined = cabling(right, i);
    std::vector<std::int64_t> lower(static_cast<std::size_t>(joined.below), 0);
    for (int t = 0; t < joined.above; ++t)
      for (int s = joined.first_below(t); s < joined.first_below(t) + joined.count_below(); ++s)
        add(lower, s, at(right, i)->first_link + 2 * joined.pair(s, t) + 1, at(weights, t) / joined.count_below());
    weights = std::move(lower);
  }
  return loads;
}

/// The same where every plane is one switch: the flow stays whole.
std::vector<LinkLoad> single_path(const Planes& left, const Planes& right) {
  std::vector<LinkLoad> loads;
  for (std::size_t i = 0; i + 1 < left.size(); ++i) loads.push_back({left[i]->first_link, kWholeFlow});
  for (std::size_t i = right.size() - 1; i-- > 0;) loads.push_back({right[i]->first_link + 1, kWholeFlow});
  return loads;
}

/// One path, selected by hash at each switch.
std::vector<LinkLoad> hashed_path(const Planes& left, const Planes& right, const PathSelector& selector) {
  const int top = static_cast<int>(left.size()) - 1;
  std::vector<LinkLoad> loads;
  loads.reserve(2 * static_cast<std::size_t>(top));
  int reached = 0;
  for (int i = 0; i < top; ++i) {
    const Cabling joined = cabling(left, i);
    const int next = joined.first(reached) + selector.pick(joined.count(), i);
    loads.push_back({at(left, i)->first_link + 2 * joined.pair(reached, next), kWholeFlow});
    reached = next;
  }
  for (int i = top; i-- > 0;) {
    const Cabling joined = cabling(right, i);
    const int next = joined.first_below(reached) + selector.pick(joined.count_below(), 2 * top - i);
    loads.push_back({at(right, i)->first_link + 2 * joined.pair(next, reached) + 1, kWholeFlow});
    reached = next;
  }
  return loads;
}

}  // namespace

FabricPath TreeFabric::path(int from, int to, const PathSelector& selector) const {
  FabricPath path;
  path.switches = 1;
  Planes left{&plane_of(from)};
  Planes right{&plane_of(to)};
  while (left.back() != right.back()) {
    path.connected = left.back()->parent >= 0 && right.back()->parent >= 0;
    if (!path.connected) return path;
    path.latency += at(links_, left.back()->first_link).latency + at(links_, right.back()->first_link + 1).latency;
    path.switches += 2;
    left.push_back(&at(planes_, left.back()->parent));
    right.push_back(&at(planes_, right.back()->parent));
  }
  const auto single = [](const Plane* plane) { return plane->switches == 1; };
  path.loads = std::all_of(left.begin(), left.end(), single) ? single_path(left, right)
               : selector.hashed                             ? hashed_path(left, right, selector)
                                                             : even_split(left, right);
  return path;
}

}  // namespace tracecast
