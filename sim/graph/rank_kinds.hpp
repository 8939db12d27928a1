/// \file
/// Kinds of ranks: those with one program, because they are of the same pipeline rank, have the same GPU, and their
/// communicators and stage boundaries lie alike in the cluster.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "sim/graph/perturbation.hpp"
#include "sim/graph/pipeline_seats.hpp"
#include "sim/graph/placements.hpp"
#include "sim/graph/template_writer.hpp"

namespace tracecast {

struct RankKind {
  int pp = 0;
  int gpu = 0;                      ///< gpu_of()
  SlotPlacements slots{};           ///< how its communicators lie
  std::vector<std::int32_t> links;  ///< [neighbour of the pipeline rank] how the boundary lies
  auto operator<=>(const RankKind&) const = default;
};

/// The kinds of a plan's ranks.
class RankKinds {
 public:
  RankKinds(const Plan& plan, const PipelineSeats& seats, int chunks, const Groups& groups,
            const Perturbation& perturbation, Placements& placements);

  /// Pipeline ranks that `pp` exchanges messages with, ascending.
  const std::vector<int>& neighbours(int pp) const { return neighbours_[static_cast<std::size_t>(pp)]; }

  /// Nobody meets anybody in this slot, and nothing is done alone in it.
  bool unused(Slot slot) const { return slot != Slot::alone && alone_[static_cast<std::size_t>(slot)]; }

  /// The kind of one rank.
  RankKind of(int rank);

  /// One kind for each pipeline rank, found from the plan's coordinates without a look at every rank; nothing when the
  /// ranks of some pipeline rank differ in kind or in speed.
  std::optional<std::vector<RankKind>> by_stage();

  /// Of every rank, number into `kinds`, which come in the order of their pipeline ranks.
  std::vector<std::int32_t> by_rank(std::vector<RankKind>& kinds);

 private:
  std::optional<RankKind> kind_of_stage(int pp);
  std::optional<std::int32_t> slot_of_stage(Slot slot, int pp);
  /// The placement that part `part` of the slot's blocks that touch `pp` has (any part: -1), if it is one.
  std::optional<std::int32_t> common_placement(Slot slot, int pp, int part);
  std::optional<std::int32_t> find_common_placement(Slot slot, int pp, int part);

  const Plan& plan_;
  const Groups& groups_;
  const Perturbation& perturbation_;
  Placements& placements_;
  std::vector<std::vector<int>> neighbours_;
  std::vector<bool> alone_;  ///< [slot] every rank is a group of its own
  std::map<std::tuple<Slot, int, int>, std::optional<std::int32_t>> common_;  ///< by slot, Placements::lies_as(), part
};

}  // namespace tracecast
