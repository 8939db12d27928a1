#include "sim/graph/placements.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace tracecast {
namespace {

int repeats_after(const Cluster& cluster) {
  if (!cluster.faults.uniform()) return cluster.world_size;
  std::int64_t nodes = 1;
  for (const FabricTier& tier : cluster.tiers) {
    if (tier.nodes == 0) break;
    nodes = std::lcm(nodes, std::int64_t{tier.nodes});
    if (nodes * cluster.node.gpus >= cluster.world_size) return cluster.world_size;
  }
  return static_cast<int>(std::min<std::int64_t>(nodes * cluster.node.gpus, cluster.world_size));
}

}  // namespace

Placements::Placements(const Plan& plan, const Cluster& cluster, const Groups& groups)
    : plan_(plan), cluster_(cluster), groups_(groups), unit_(repeats_after(cluster)), blocks_(kSlots) {}

std::int32_t Placements::number_of(const GroupPlacement& placement) {
  const auto found = std::find(known_.begin(), known_.end(), placement);
  if (found != known_.end()) return static_cast<std::int32_t>(found - known_.begin());
  known_.push_back(placement);
  return static_cast<std::int32_t>(known_.size()) - 1;
}

/// Groups like this one share the NICs of its first member's node: as many as fit beside each other.
GroupPlacement Placements::place_group(const std::vector<int>& members) const {
  const int node = cluster_.node_of(members.front());
  const auto here = std::count_if(members.begin(), members.end(), [&](int m) { return cluster_.node_of(m) == node; });
  const int gpus = std::min(cluster_.node.gpus, cluster_.world_size);
  return place(cluster_, members, std::max(1, gpus / static_cast<int>(here)));
}

std::vector<std::int32_t> Placements::place_block(Slot slot, int begin) {
  std::vector<int> ranks = groups_.block(begin, slot);
  for (int& rank : ranks) rank -= begin - alike(begin);  // placed where such blocks come first
  std::vector<std::vector<int>> parts(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    parts[static_cast<std::size_t>(groups_.part(slot, static_cast<int>(i)))].push_back(ranks[i]);
  std::vector<std::int32_t> numbers(parts.size(), -1);
  for (std::size_t part = 0; part < parts.size(); ++part)
    if (!parts[part].empty()) numbers[part] = parts[part].size() == 1 ? alone() : number_of(place_group(parts[part]));
  return numbers;
}

const std::vector<std::int32_t>& Placements::block(Slot slot, int begin) {
  std::map<int, std::vector<std::int32_t>>& known = blocks_[static_cast<std::size_t>(slot)];
  const auto [found, added] = known.try_emplace(alike(begin));
  if (added) found->second = place_block(slot, begin);
  return found->second;
}

GroupPlacement Placements::place_boundary(int rank, int partner) const {
  const std::vector<int> pair{std::min(rank, partner), std::max(rank, partner)};
  // Nodes of one pipeline rank's GPUs alone, whose partners are whole nodes as well.
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

std::vector<std::int32_t>& Placements::boundaries_over(int distance) {
  std::vector<std::int32_t>& known = boundaries_[distance];
  if (known.empty()) known.assign(static_cast<std::size_t>(unit_), -1);
  return known;
}

std::int32_t Placements::boundary_at(std::vector<std::int32_t>& known, int lower, int distance) {
  std::int32_t& number = known[static_cast<std::size_t>(lower)];
  if (number < 0) number = number_of(place_boundary(lower, lower + distance));
  return number;
}

std::int32_t Placements::boundary(int rank, int other) {
  const int pp = plan_.grid.coordinates(rank)[Axis::pp];
  const int distance = (other - pp) * plan_.grid.stride(Axis::pp);
  // The same for both ends: seen from the lower rank, where such a pair comes first.
  return boundary_at(boundaries_over(std::abs(distance)), alike(std::min(rank, rank + distance)), std::abs(distance));
}

std::optional<std::int32_t> Placements::common_boundary(int pp, int other) {
  const int distance = std::abs(other - pp) * plan_.grid.stride(Axis::pp);
  std::vector<std::int32_t>& known = boundaries_over(distance);
  std::optional<std::int32_t> common;
  for (const int rank : distinct_ranks(std::min(pp, other))) {
    const std::int32_t number = boundary_at(known, alike(rank), distance);
    if (common && *common != number) return std::nullopt;
    common = number;
  }
  return common;
}

std::vector<int> Placements::distinct_sums(int origin, const std::vector<Axis>& axes) const {
  std::vector<int> sums{origin};
  std::vector<bool> seen(static_cast<std::size_t>(unit_));
  for (const Axis axis : axes) {
    std::fill(seen.begin(), seen.end(), false);
    std::vector<int> wider;
    for (const int sum : sums)
      for (int i = 0; i < plan_.grid.size(axis); ++i) {
        const int rank = sum + i * plan_.grid.stride(axis);
        if (seen[static_cast<std::size_t>(alike(rank))]) {
          // The axis has gone round the unit, or met another sum: what follows has been seen too if it started here.
          if (alike(rank) == alike(sum) && i > 0) break;
          continue;
        }
        seen[static_cast<std::size_t>(alike(rank))] = true;
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
  return distinct_sums(is_inside(Axis::pp) ? 0 : pp * plan_.grid.stride(Axis::pp), outside);
}

std::vector<int> Placements::distinct_ranks(int pp) const {
  return distinct_sums(pp * plan_.grid.stride(Axis::pp), {Axis::dp, Axis::cp, Axis::tp});
}

}  // namespace tracecast
