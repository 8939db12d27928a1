/// \file
/// The simulated ranks with their communicators and channels: one for each class of ranks, or all of the job.
#pragma once

#include <vector>

#include "sim/graph/build_context.hpp"
#include "sim/graph/classes.hpp"
#include "sim/graph/rank_kinds.hpp"

namespace tracecast {

/// Program numbers are the numbers of the kinds of ranks.
class RankConnections {
 public:
  /// Requires the programs in the graph of the context
  RankConnections(BuildContext& context, const RankKinds& kinds);

  /// The first rank of each pipeline rank, which stands for all of them. `kinds`: [pipeline rank]
  void add_one_rank_per_stage(const std::vector<RankKind>& kinds, const Perturbation& perturbation);
  /// Ranks of the same kind, speed and partners are one class. `kind_of`: [rank] index into `kinds`
  void add_classes(const std::vector<RankKind>& kinds, const std::vector<std::int32_t>& kind_of,
                   const Perturbation& perturbation, SimulatedRanks ranks);

 private:
  bool is_used(Slot slot) const;

  /// What makes the operations of a rank take other times than those of its program.
  struct Pace {
    std::int32_t slowdown = kNoSlowdown;
    std::int32_t first_batch = -1;
    auto operator<=>(const Pace&) const = default;
  };
  Pace pace_of(const Perturbation& perturbation, int rank) const;

  /// Channels to the adjacent pipeline ranks, which stand for the simulated ranks there.
  std::vector<ChannelEnd> channels_of(int pp) const;
  std::int32_t add_communicator(Slot slot, int pp, std::int32_t placement, std::vector<std::int32_t> members);
  std::int32_t add_embedding_communicator(const std::vector<RankKind>& kinds);
  std::vector<std::int32_t> add_mirrors(const std::vector<RankKind>& kinds);

  RankRelations::Family family(Slot slot, const std::vector<RankKind>& kinds,
                               const std::vector<std::int32_t>& kind_of) const;
  RankRelations relations(const std::vector<RankKind>& kinds, const std::vector<std::int32_t>& kind_of,
                          const std::vector<Pace>& paces) const;
  RankClasses classes_of(const RankRelations& related, std::size_t kinds, SimulatedRanks ranks) const;
  int partner(int rank, int pp, int other) const;
  std::vector<std::int32_t> add_communicators(const RankRelations& relations, const RankClasses& classes,
                                              const std::vector<RankKind>& kinds,
                                              const std::vector<std::int32_t>& kind_of);

  BuildContext& context_;
  const RankKinds& kinds_;
  std::vector<Slot> used_slots_;  ///< in which ranks communicate, ascending: those of the families of relations()
};

}  // namespace tracecast
