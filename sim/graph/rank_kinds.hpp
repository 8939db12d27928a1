/// \file
/// Kinds of ranks: ranks of one kind share a program, because they have the same pipeline rank and GPU, and their
/// communicators and stage boundaries have equivalent placements.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/graph/perturbation.hpp"
#include "sim/graph/placements.hpp"
#include "sim/graph/stage_placement.hpp"
#include "sim/graph/template_writer.hpp"

namespace tracecast {

struct RankKind {
  int pp = 0;
  int gpu = 0;                      ///< gpu_of()
  SlotPlacements slots{};           ///< placements of its communicators
  std::vector<std::int32_t> links;  ///< [adjacent pipeline rank] placement of the boundary
  std::int32_t first_batch = -1;    ///< Plan::first_batch, where programs depend on it (Plan::context_varies)
  auto operator<=>(const RankKind&) const = default;
};

/// The kinds of a plan's ranks.
class RankKinds {
 public:
  RankKinds(const Plan& plan, const StagePlacement& stages, int chunks, const Groups& groups,
            const Perturbation& perturbation, Placements& placements);

  /// Pipeline ranks that `pp` exchanges messages with, ascending.
  const std::vector<int>& neighbours(int pp) const { return neighbours_[static_cast<std::size_t>(pp)]; }

  /// True if no rank communicates in this slot.
  bool unused(Slot slot) const { return alone_[static_cast<std::size_t>(slot)]; }

  /// One kind for each pipeline rank, found from the plan's coordinates without visiting every rank; nothing if the
  /// ranks of some pipeline rank differ in kind, in speed or in their packed documents.
  std::optional<std::vector<RankKind>> by_stage();

  /// [pipeline rank] the kind of its first rank.
  std::vector<RankKind> of_first_ranks();

  /// [rank] the number of its kind in `kinds`, which is filled in the order of pipeline ranks.
  std::vector<std::int32_t> by_rank(std::vector<RankKind>& kinds);

 private:
  std::optional<RankKind> kind_of_stage(int pp);
  std::int32_t batch_of(int rank) const;
  void placements_by_rank(Slot slot, std::vector<std::int32_t>& placements);
  std::optional<std::int32_t> slot_of_stage(Slot slot, int pp);
  /// The common placement of part `part` (-1: all parts) of the slot's blocks with ranks of `pp`, if there is one.
  std::optional<std::int32_t> common_placement(Slot slot, int pp, int part);
  std::optional<std::int32_t> find_common_placement(Slot slot, int pp, int part);

  const Plan& plan_;
  const Groups& groups_;
  const Perturbation& perturbation_;
  Placements& placements_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<bool> alone_;                                                   ///< [slot] every rank is a group of one
  std::map<std::tuple<Slot, int, int>, std::optional<std::int32_t>> common_;  ///< by slot, placement class, part
};

}  // namespace tracecast
