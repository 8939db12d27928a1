#include "sim/graph/rank_kinds.hpp"

#include <set>
#include <utility>

#include "sim/base/dense_numbers.hpp"
#include "sim/graph/refinement.hpp"

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

constexpr std::int32_t kNoBoundary = -1;

/// Numbers the kinds of ranks, which are divided by one value after another.
class KindNumbers {
 public:
  explicit KindNumbers(std::size_t ranks) : number_(ranks), kinds_(1) {}

  /// Divides by values [rank], which `set(kind, value)` notes.
  template <class Set>
  void divide(const std::vector<std::int32_t>& values, const Set& set) {
    using Division = std::pair<std::int32_t, std::int32_t>;  // a kind, and a value
    DenseNumbers<Division> divisions;
    std::vector<RankKind> kinds;
    Division last(-1, -1);  // ranks beside each other are often of one kind
    std::int32_t last_number = -1;
    for (std::size_t rank = 0; rank < number_.size(); ++rank) {
      if (const Division own(number_[rank], values[rank]); own != last) {
        last = own;
        last_number =
            divisions.number(own, combine(static_cast<NodeColour>(own.first), static_cast<NodeColour>(own.second)));
        if (static_cast<std::size_t>(last_number) == kinds.size()) {
          kinds.push_back(kinds_[static_cast<std::size_t>(own.first)]);
          set(kinds.back(), own.second);
        }
      }
      number_[rank] = last_number;
    }
    kinds_ = std::move(kinds);
  }

  /// Appends the kinds in their order. Returns their numbers, [rank].
  std::vector<std::int32_t> sorted(std::vector<RankKind>& kinds) const {
    std::map<RankKind, std::size_t> known;
    for (std::size_t i = 0; i < kinds_.size(); ++i) known.emplace(kinds_[i], i);
    std::vector<std::int32_t> place(kinds_.size());
    for (const auto& [kind, number] : known) {
      place[number] = static_cast<std::int32_t>(kinds.size());
      kinds.push_back(kind);
    }
    std::vector<std::int32_t> numbers;
    for (const std::int32_t each : number_) numbers.push_back(place[static_cast<std::size_t>(each)]);
    return numbers;
  }

 private:
  std::vector<std::int32_t> number_;  ///< [rank] of its kind, by first rank
  std::vector<RankKind> kinds_;       ///< [number]
};

}  // namespace

RankKinds::RankKinds(const Plan& plan, const StagePlacement& stages, int chunks, const Groups& groups,
                     const Perturbation& perturbation, Placements& placements)
    : plan_(plan), groups_(groups), perturbation_(perturbation), placements_(placements) {
  for (int pp = 0; pp < plan.parallel.pp; ++pp) neighbours_.push_back(neighbours_of(stages, chunks, pp));
  for (int slot = 0; slot < kSlots; ++slot) alone_.push_back(groups.alone(static_cast<Slot>(slot)));
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

std::vector<RankKind> RankKinds::of_first_ranks() {
  std::vector<RankKind> kinds;
  for (int pp = 0; pp < plan_.parallel.pp; ++pp) {
    const int rank = pp * plan_.grid.stride(Axis::pp);
    RankKind& kind = kinds.emplace_back();
    kind.pp = pp;
    kind.gpu = gpu_of(perturbation_, rank);
    for (int slot = 0; slot < kSlots; ++slot)
      kind.slots[static_cast<std::size_t>(slot)] = alone_[static_cast<std::size_t>(slot)]
                                                       ? placements_.alone()
                                                       : placements_.of_group(static_cast<Slot>(slot), rank);
    for (const int other : neighbours(pp)) kind.links.push_back(placements_.boundary(rank, other));
    kind.first_batch = batch_of(rank);
  }
  return kinds;
}

std::vector<std::int32_t> RankKinds::by_rank(std::vector<RankKind>& kinds) {
  const auto ranks = static_cast<std::size_t>(plan_.world_size);
  std::vector<std::vector<std::int32_t>> values(3);  // pipeline rank, GPU, batch, links; [rank]
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const int number = static_cast<int>(rank);
    const int pp = placements_.pp_of(number);
    values[0].push_back(pp);
    values[1].push_back(gpu_of(perturbation_, number));
    values[2].push_back(batch_of(number));
    std::size_t next = 3;
    for (const int other : neighbours(pp)) {
      if (next == values.size()) values.emplace_back(ranks, kNoBoundary);
      values[next++][rank] = placements_.boundary(number, other);
    }
  }
  KindNumbers numbers(ranks);
  numbers.divide(values[0], [](RankKind& kind, std::int32_t pp) { kind.pp = pp; });
  numbers.divide(values[1], [](RankKind& kind, std::int32_t gpu) { kind.gpu = gpu; });
  numbers.divide(values[2], [](RankKind& kind, std::int32_t batch) { kind.first_batch = batch; });
  for (std::size_t i = 3; i < values.size(); ++i)
    numbers.divide(values[i], [](RankKind& kind, std::int32_t link) {
      if (link != kNoBoundary) kind.links.push_back(link);
    });
  std::vector<std::int32_t> placements(ranks);
  for (int slot = 0; slot < kSlots; ++slot) {
    placements_by_rank(static_cast<Slot>(slot), placements);
    numbers.divide(placements, [slot](RankKind& kind, std::int32_t placement) {
      kind.slots[static_cast<std::size_t>(slot)] = placement;
    });
  }
  return numbers.sorted(kinds);
}

/// [rank] the placement of its group.
void RankKinds::placements_by_rank(Slot slot, std::vector<std::int32_t>& placements) {
  if (is_rare(slot) && unused(slot)) return placements.assign(placements.size(), placements_.alone());
  const std::vector<int> offsets = groups_.block(0, slot);
  std::vector<std::size_t> part;  // [offset]
  for (std::size_t i = 0; i < offsets.size(); ++i)
    part.push_back(static_cast<std::size_t>(groups_.part(slot, static_cast<int>(i))));
  for (const int begin : groups_.block_begins(slot)) {
    const std::vector<std::int32_t>& parts = placements_.block(slot, begin);
    for (std::size_t i = 0; i < offsets.size(); ++i)
      placements[static_cast<std::size_t>(begin + offsets[i])] = parts[part[i]];
  }
}

}  // namespace tracecast
