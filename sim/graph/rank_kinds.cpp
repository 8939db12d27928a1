#include "sim/graph/rank_kinds.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tracecast {
namespace {

std::vector<int> neighbours_of(const StagePlacement& stages, int chunks, int pp) {
  std::set<int> found;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const int step : {-1, +1}) {
      const int other = stages.neighbour(pp, chunk, step).rank;
      if (other >= 0 && other != pp) found.insert(other);
    }
  return {found.begin(), found.end()};
}

/// Few jobs use these slots; in the others they need not be placed.
bool is_rare(Slot slot) { return slot == Slot::replica || slot >= Slot::context_2; }

}  // namespace

RankKinds::RankKinds(const Plan& plan, const StagePlacement& stages, int chunks, const Groups& groups,
                     const Perturbation& perturbation, Placements& placements)
    : plan_(plan), groups_(groups), perturbation_(perturbation), placements_(placements) {
  for (int pp = 0; pp < plan.parallel.pp; ++pp) neighbours_.push_back(neighbours_of(stages, chunks, pp));
  for (int slot = 0; slot < kSlots; ++slot) alone_.push_back(groups.alone(static_cast<Slot>(slot)));
}

RankKind RankKinds::of(int rank) {
  RankKind kind;
  kind.pp = plan_.grid.coordinates(rank)[Axis::pp];
  kind.gpu = gpu_of(perturbation_, rank);
  kind.first_batch = batch_of(rank);
  for (const int other : neighbours(kind.pp)) kind.links.push_back(placements_.boundary(rank, other));
  for (int slot = 0; slot < kSlots; ++slot) {
    const auto which = static_cast<Slot>(slot);
    if (is_rare(which) && unused(which)) {
      kind.slots[static_cast<std::size_t>(slot)] = placements_.alone();
      continue;
    }
    const std::vector<int> block = groups_.block(rank, which);
    const auto position = std::lower_bound(block.begin(), block.end(), rank) - block.begin();
    kind.slots[static_cast<std::size_t>(slot)] = placements_.block(
        which, block.front())[static_cast<std::size_t>(groups_.part(which, static_cast<int>(position)))];
  }
  return kind;
}

std::int32_t RankKinds::batch_of(int rank) const {
  return plan_.context_varies() ? plan_.first_batch(plan_.grid.coordinates(rank)) : -1;
}

std::optional<std::int32_t> RankKinds::common_placement(Slot slot, int pp, int part) {
  const auto [found, added] =
      common_.try_emplace({groups_.same_groups(slot), placements_.placement_class(slot, pp), part});
  if (added) found->second = find_common_placement(slot, pp, part);
  return found->second;
}

std::optional<std::int32_t> RankKinds::find_common_placement(Slot slot, int pp, int part) {
  std::optional<std::int32_t> common;
  for (const int begin : placements_.distinct_blocks(slot, pp)) {
    const std::vector<std::int32_t>& parts = placements_.block(slot, begin);
    const std::size_t first = part < 0 ? 0 : static_cast<std::size_t>(part);
    const std::size_t last = part < 0 ? parts.size() : first + 1;
    for (std::size_t i = first; i < last; ++i) {
      if (parts[i] < 0) continue;
      if (common && *common != parts[i]) return std::nullopt;
      common = parts[i];
    }
  }
  return common;
}

/// The common placement of all groups with ranks of `pp`, if there is one.
std::optional<std::int32_t> RankKinds::slot_of_stage(Slot slot, int pp) {
  if (alone_[static_cast<std::size_t>(slot)]) return placements_.alone();
  // A block along the pipeline: only the part that contains `pp`. A block of all ranks has one part.
  const std::vector<Axis> axes = Groups::block_axes(slot);
  if (axes.size() == 1 && axes.front() == Axis::pp) return common_placement(slot, pp, groups_.part(slot, pp));
  return common_placement(slot, pp, -1);
}

std::optional<RankKind> RankKinds::kind_of_stage(int pp) {
  RankKind kind;
  kind.pp = pp;
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::optional<std::int32_t> number = slot_of_stage(static_cast<Slot>(slot), pp);
    if (!number) return std::nullopt;
    kind.slots[static_cast<std::size_t>(slot)] = *number;
  }
  for (const int other : neighbours(pp)) {
    const std::optional<std::int32_t> number = placements_.common_boundary(pp, other);
    if (!number) return std::nullopt;
    kind.links.push_back(*number);
  }
  return kind;
}

std::optional<std::vector<RankKind>> RankKinds::by_stage() {
  if (!perturbation_.none() || plan_.batches_vary()) return std::nullopt;
  std::vector<RankKind> kinds;
  for (int pp = 0; pp < plan_.parallel.pp; ++pp) {
    std::optional<RankKind> kind = kind_of_stage(pp);
    if (!kind) return std::nullopt;
    kinds.push_back(std::move(*kind));
  }
  return kinds;
}

std::vector<std::int32_t> RankKinds::by_rank(std::vector<RankKind>& kinds) {
  const auto ranks = static_cast<std::size_t>(plan_.world_size);
  std::vector<RankKind> own(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const int number = static_cast<int>(rank);
    own[rank].pp = plan_.grid.coordinates(number)[Axis::pp];
    own[rank].gpu = gpu_of(perturbation_, number);
    own[rank].first_batch = batch_of(number);
    for (const int other : neighbours(own[rank].pp)) own[rank].links.push_back(placements_.boundary(number, other));
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    const auto which = static_cast<Slot>(slot);
    if (is_rare(which) && unused(which)) {
      for (RankKind& each : own) each.slots[static_cast<std::size_t>(slot)] = placements_.alone();
      continue;
    }
    const std::vector<int> offsets = groups_.block(0, which);
    for (const int begin : groups_.block_begins(which)) {
      const std::vector<std::int32_t>& parts = placements_.block(which, begin);
      for (std::size_t i = 0; i < offsets.size(); ++i)
        own[static_cast<std::size_t>(begin + offsets[i])].slots[static_cast<std::size_t>(slot)] =
            parts[static_cast<std::size_t>(groups_.part(which, static_cast<int>(i)))];
    }
  }
  std::map<RankKind, std::int32_t> known;
  for (const RankKind& kind : own) known.try_emplace(kind, 0);
  for (auto& [kind, number] : known) {
    number = static_cast<std::int32_t>(kinds.size());
    kinds.push_back(kind);
  }
  std::vector<std::int32_t> result(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) result[rank] = known.at(own[rank]);
  return result;
}

}  // namespace tracecast
