#include "sim/graph/placements.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <numeric>

#include "sim/base/integers.hpp"

namespace tracecast {
namespace {

std::vector<int> repeating_units(const Cluster& cluster) {
  std::vector<int> units;
  std::int64_t ranks = cluster.node.gpus;
  const auto add = [&] {
    if (cluster.faults.uniform() && ranks < cluster.world_size) units.push_back(static_cast<int>(ranks));
  };
  add();
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0) break;
    if (std::int64_t{tier.nodes} * cluster.node.gpus % ranks != 0)
      units.clear();  // units that do not nest repeat after their least common multiple
    ranks = std::lcm(ranks, std::int64_t{tier.nodes} * cluster.node.gpus);
    add();
    if (ranks >= cluster.world_size) break;
  }
  units.push_back(cluster.world_size);
  return units;
}

}  // namespace

Placements::Placements(const Plan& plan, const Cluster& cluster, const Groups& groups)
    : plan_(plan),
      cluster_(cluster),
      groups_(groups),
      units_(repeating_units(cluster)),
      stage_ranks_(plan.grid.group(0, {Axis::dp, Axis::cp, Axis::tp})),
      blocks_(kSlots) {
  for (int slot = 0; slot < kSlots; ++slot) {
    // Each block is within a range of this many ranks that begins at a multiple of it: strides are products of sizes.
    int range = 1;
    for (const Axis axis : Groups::block_axes(static_cast<Slot>(slot)))
      if (plan.grid.size(axis) > 1) range = std::max(range, plan.grid.size(axis) * plan.grid.stride(axis));
    const auto unit = std::find_if(units_.begin(), units_.end(), [&](int each) { return each % range == 0; });
    unit_of_slot_.push_back(unit == units_.end() ? cluster.world_size : *unit);
  }
}

std::int32_t Placements::number_of(const GroupPlacement& placement) {
  const auto found = std::find(known_.begin(), known_.end(), placement);
  if (found != known_.end()) return static_cast<std::int32_t>(found - known_.begin());
  known_.push_back(placement);
  return static_cast<std::int32_t>(known_.size()) - 1;
}

const Placements::SlotGroups& Placements::groups_of(Slot slot) {
  const auto [found, added] = slot_groups_.try_emplace(slot);
  SlotGroups& known = found->second;
  if (!added) return known;
  known.offsets = groups_.block(0, slot);
  const std::size_t size = known.offsets.size();
  std::vector<std::pair<int, int>> ends(size, {-1, -1});  // [part]
  for (std::size_t i = 0; i < size; ++i) {
    known.parts.push_back(static_cast<std::size_t>(groups_.part(slot, static_cast<int>(i))));
    auto& [first, last] = ends[known.parts.back()];
    if (first < 0) first = known.offsets[i];
    last = known.offsets[i];
  }
  for (const std::size_t part : known.parts) known.ends.push_back(ends[part]);
  return known;
}

const std::vector<int>& Placements::leaving_ranks(Slot slot, int rank) {
  const int node = cluster_.node_of(rank);
  const auto [found, added] = leaving_ranks_.try_emplace({slot, node});
  std::vector<int>& leaving = found->second;
  if (!added) return leaving;
  const SlotGroups& own = groups_of(slot);
  while (rank > 0 && cluster_.node_of(rank - 1) == node) --rank;
  for (; rank < plan_.world_size && cluster_.node_of(rank) == node; ++rank) {
    const int begin = groups_.block_begin(rank, slot);
    const auto position = std::lower_bound(own.offsets.begin(), own.offsets.end(), rank - begin) - own.offsets.begin();
    const auto [first, last] = own.ends[static_cast<std::size_t>(position)];
    if (cluster_.node_of(begin + first) != cluster_.node_of(begin + last)) leaving.push_back(rank);
  }
  return leaving;
}

/// Groups that share the node's NICs with the group that has these members there: as many as there is room for among the
/// ranks whose groups leave the node; 1 if none of those uses a NIC of this group. Failed NICs are replaced by any others.
int Placements::sharing(Slot slot, std::span<const int> members) {
  const NodeSpec& node = cluster_.node;
  const std::vector<int>& leaving = leaving_ranks(slot, members.front());
  const auto users_of_nics = [&](std::span<const int> ranks) {
    std::vector<int> users(static_cast<std::size_t>(node.hosts() * node.nics));
    for (const int rank : ranks) {
      const NicRange nics = nics_of_gpu(node, cluster_.coord_of(rank).gpu);
      for (int nic = nics.first; nic < nics.last; ++nic) ++users[static_cast<std::size_t>(nic)];
    }
    return users;
  };
  const std::vector<int> own = users_of_nics(members), all = users_of_nics(leaving);
  int used = 0, most = 1;  // NICs of the group, and groups on the fullest of them
  for (std::size_t nic = 0; nic < own.size(); ++nic)
    if (own[nic] > 0) ++used, most = std::max(most, ceil_div(all[nic], own[nic]));
  const NetworkFaults& faults = cluster_.faults;
  if (faults.lost_rails.empty() && faults.slow_nics.empty() && most == 1) return 1;
  const int fit = std::max(1, static_cast<int>(leaving.size() / members.size()));
  // Where only some leave, they may use the same NICs: the group has its own divided by the groups on the fullest of them.
  const bool all_leave = static_cast<int>(leaving.size()) >= node.gpus;
  return all_leave ? fit : std::max(fit, ceil_div(node.hosts() * node.nics * most, std::max(1, used)));
}

/// The node in which most groups share the NICs decides: one at an end of the group, since those between have no other members.
GroupPlacement Placements::place_group(Slot slot, std::span<const int> members) {
  const auto on_node_of = [&](int rank) {
    return [this, node = cluster_.node_of(rank)](int other) { return cluster_.node_of(other) == node; };
  };
  const auto first = std::partition_point(members.begin(), members.end(), on_node_of(members.front()));
  if (first == members.end()) return place(cluster_, members, 1);
  const auto last = std::partition_point(members.begin(), members.end(), std::not_fn(on_node_of(members.back())));
  return place(cluster_, members,
               std::max(sharing(slot, {members.begin(), first}), sharing(slot, {last, members.end()})));
}

std::vector<std::int32_t> Placements::place_block(Slot slot, int begin) {
  if (slot == Slot::world && cluster_.faults.missing_gpus.empty())
    return {plan_.world_size == 1 ? alone() : number_of(place_world(cluster_))};
  std::vector<int> ranks = groups_.block(begin, slot);
  for (int& rank : ranks) rank -= begin - begin % unit_of(slot);  // the first equivalent block
  if (Groups::whole_blocks(slot)) return {ranks.size() == 1 ? alone() : number_of(place_group(slot, ranks))};
  const std::vector<std::size_t>& parts = groups_of(slot).parts;
  // [part] of its members among those of all parts, one after the other
  std::vector<std::size_t> ends(ranks.size() + 1);
  for (const std::size_t part : parts) ++ends[part + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<int> members(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) members[ends[parts[i]]++] = ranks[i];
  std::vector<std::int32_t> numbers(ranks.size(), -1);
  std::size_t first = 0;
  for (std::size_t part = 0; part < ranks.size(); first = ends[part++]) {
    const std::span<const int> own(members.data() + first, ends[part] - first);
    if (!own.empty()) numbers[part] = own.size() == 1 ? alone() : number_of(place_group(slot, own));
  }
  return numbers;
}

const std::vector<std::int32_t>& Placements::block(Slot slot, int begin) {
  slot = groups_.same_groups(slot);
  std::map<int, std::vector<std::int32_t>>& known = blocks_[static_cast<std::size_t>(slot)];
  const auto [found, added] = known.try_emplace(begin % unit_of(slot));
  if (added) found->second = place_block(slot, begin);
  return found->second;
}

std::int32_t Placements::of_group(Slot slot, int rank) {
  slot = groups_.same_groups(slot);
  if (slot == Slot::world) return block(slot, 0).front();
  const std::vector<int> members = groups_.members(rank, slot);
  if (members.size() == 1) return alone();
  const auto [found, added] = groups_of_ranks_.try_emplace({slot, members.front() % unit_of(slot)});
  if (added) found->second = number_of(place_group(slot, members));
  return found->second;
}

GroupPlacement Placements::place_boundary(int rank, int partner) const {
  const std::vector<int> pair{std::min(rank, partner), std::max(rank, partner)};
  // Every GPU of the node has its partner on one other node.
  if (cluster_.faults.missing_gpus.empty() && (partner - rank) % cluster_.node.gpus == 0)
    return place(cluster_, pair, std::min(cluster_.node.gpus, plan_.world_size));
  int first = rank;
  while (first > 0 && cluster_.node_of(first - 1) == cluster_.node_of(rank)) --first;
  int crossing = 0;
  for (int each = first; each < plan_.world_size && cluster_.node_of(each) == cluster_.node_of(rank); ++each) {
    const int other = each + partner - rank;
    crossing += other >= 0 && other < plan_.world_size && cluster_.node_of(other) != cluster_.node_of(each) ? 1 : 0;
  }
  return place(cluster_, pair, std::max(1, crossing));
}

int Placements::boundary_class(int lower, int distance) const {
  const int gpus = cluster_.node.gpus;
  if (!cluster_.faults.uniform()) return lower;
  // Its node's ranks whose partners, of which some may be on this node, are in the job; whole nodes apart all of them are used.
  const int partners = distance % gpus == 0 ? 0 : std::min(gpus, plan_.world_size - distance - lower / gpus * gpus);
  int tiers_left = partners;
  for (const FabricTier& tier : cluster_.tiers) {
    if (tier.nodes == 0) break;
    const int ranks = tier.nodes * gpus;
    tiers_left = 2 * tiers_left + (lower / ranks != (lower + distance) / ranks ? 1 : 0);
  }
  return tiers_left * gpus + lower % gpus;
}

/// The rank before which all pairs from `lower` on leave the same tiers.
int Placements::leave_same_tiers_until(int lower, int distance) const {
  const int gpus = cluster_.node.gpus;
  if (!cluster_.faults.uniform()) return lower;
  int until = plan_.world_size;
  if (distance % gpus != 0) {  // up to the first node in which not all ranks have partners
    until = (plan_.world_size - distance) / gpus * gpus;
    if (lower >= until) return lower;
  }
  for (const FabricTier& tier : cluster_.tiers) {
    if (tier.nodes == 0) break;
    const int ranks = tier.nodes * gpus;
    until = std::min(until, (lower / ranks + 1) * ranks);
    until = std::min(until, ((lower + distance) / ranks + 1) * ranks - distance);
  }
  return until;
}

std::int32_t Placements::boundary_at(std::map<int, std::int32_t>& known, int lower, int distance) {
  const auto [found, added] = known.try_emplace(boundary_class(lower, distance));
  if (added) found->second = number_of(place_boundary(lower, lower + distance));
  return found->second;
}

std::int32_t Placements::boundary(int rank, int other) {
  const int distance = (other - pp_of(rank)) * plan_.grid.stride(Axis::pp);
  // Both ends use the lower rank, so that they get the same number.
  return boundary_at(boundaries_[std::abs(distance)], std::min(rank, rank + distance), std::abs(distance));
}

std::optional<std::int32_t> Placements::common_boundary(int pp, int other) {
  const int distance = std::abs(other - pp) * plan_.grid.stride(Axis::pp);
  const auto [found, added] = common_boundaries_.try_emplace({std::min(pp, other), distance});
  std::optional<std::int32_t>& common = found->second;
  if (!added) return common;
  std::map<int, std::int32_t>& known = boundaries_[distance];
  int from = 0;  // ranks from here to `until` differ only in their GPU
  int until = 0;
  std::vector<bool> seen(static_cast<std::size_t>(cluster_.node.gpus));
  std::size_t missing = 0;  // GPUs that have not been seen
  const int first = std::min(pp, other) * plan_.grid.stride(Axis::pp);
  for (auto own = stage_ranks_.begin(); own != stage_ranks_.end(); ++own) {
    const int rank = first + *own;
    if (rank < from || rank >= until) {
      from = rank;
      until = leave_same_tiers_until(rank, distance);
      std::fill(seen.begin(), seen.end(), false);
      missing = seen.size();
    }
    if (missing == 0) {
      own = std::prev(std::lower_bound(own, stage_ranks_.end(), until - first));
      continue;
    }
    const auto gpu = static_cast<std::size_t>(rank % cluster_.node.gpus);
    if (rank < until && seen[gpu]) continue;
    if (!seen[gpu]) --missing;
    seen[gpu] = true;
    const std::int32_t number = boundary_at(known, rank, distance);
    if (common && *common != number) return common = std::nullopt;
    common = number;
  }
  return common;
}

std::vector<int> Placements::distinct_sums(int origin, const std::vector<Axis>& axes, int unit) const {
  std::vector<int> sums{origin};
  std::vector<bool> seen(static_cast<std::size_t>(unit));
  const auto in_unit = [unit](int rank) { return static_cast<std::size_t>(rank % unit); };
  for (const Axis axis : axes) {
    std::fill(seen.begin(), seen.end(), false);
    std::vector<int> wider;
    for (const int sum : sums)
      for (int i = 0; i < plan_.grid.size(axis); ++i) {
        const int rank = sum + i * plan_.grid.stride(axis);
        if (seen[in_unit(rank)]) {
          // After a whole turn around the unit all further ranks of this axis have been seen, too.
          if (in_unit(rank) == in_unit(sum) && i > 0) break;
          continue;
        }
        seen[in_unit(rank)] = true;
        wider.push_back(rank);
      }
    sums = std::move(wider);
  }
  return sums;
}

std::vector<int> Placements::distinct_blocks(Slot slot, int pp) const {
  const std::vector<Axis> inside = Groups::block_axes(slot);
  const auto is_inside = [&](Axis axis) { return std::find(inside.begin(), inside.end(), axis) != inside.end(); };
  std::vector<Axis> outside;
  for (const Axis axis : {Axis::dp, Axis::cp, Axis::tp})
    if (!is_inside(axis)) outside.push_back(axis);
  return distinct_sums(is_inside(Axis::pp) ? 0 : pp * plan_.grid.stride(Axis::pp), outside, unit_of(slot));
}

}  // namespace tracecast
