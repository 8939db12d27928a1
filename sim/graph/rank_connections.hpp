/// \file
/// The simulated ranks with their communicators and channels: one for each class of ranks, or all of the job.
#pragma once

#include <vector>

#include "sim/graph/build_context.hpp"
#include "sim/graph/classes.hpp"
#include "sim/graph/rank_kinds.hpp"

namespace tracecast {

/// Programs are numbered as the kinds of ranks.
class RankConnections {
 public:
  RankConnections(BuildContext& context, const RankKinds& kinds) : context_(context), kinds_(kinds) {}

  /// All ranks of a pipeline rank are of its kind and do the same.
  void add_one_rank_per_stage(const std::vector<RankKind>& kinds);
  /// Ranks apart by the kind of each (`kind_of`), its speed, and by whom they meet; every rank when `unfold`.
  void add_classes(const std::vector<RankKind>& kinds, const std::vector<std::int32_t>& kind_of,
                   const Perturbation& perturbation, bool unfold);

 private:
  /// Channels to the neighbours of pipeline rank `pp`; `rank_index(other)` is the simulated rank at pipeline rank `other`.
  template <class RankIndex>
  void connect(Rank& rank, int pp, RankIndex rank_index) const;
  std::int32_t add_communicator(Slot slot, int pp, std::int32_t placement, std::vector<std::int32_t> members);
  std::int32_t add_embedding_communicator(const std::vector<RankKind>& kinds);
  std::vector<std::int32_t> add_mirrors(const std::vector<RankKind>& kinds);

  RankRelations::Family family(Slot slot, const std::vector<RankKind>& kinds,
                               const std::vector<std::int32_t>& kind_of) const;
  RankRelations relations(const std::vector<RankKind>& kinds, const std::vector<std::int32_t>& kind_of,
                          const std::vector<std::int32_t>& slowness) const;
  int partner(int rank, int pp, int other) const;
  std::vector<std::vector<std::int32_t>> add_communicators(const RankRelations& relations, const RankClasses& classes,
                                                           const std::vector<RankKind>& kinds,
                                                           const std::vector<std::int32_t>& kind_of);

  BuildContext& context_;
  const RankKinds& kinds_;
};

}  // namespace tracecast
