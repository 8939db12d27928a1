/// \file
/// Classes of ranks that do the same at the same time, found by colour refinement (refinement.hpp).
///
/// Two ranks stay in one class as long as they have the same seed (program, slowdown, batches), their groups of every family
/// have the same label and the same numbers of members of every class, and their partners are of the same classes. In
/// the coarsest such partition every rank of a class sees exactly what its representative sees, so simulating the
/// representatives alone gives the result of simulating all ranks (docs/folding.md).
#pragma once

#include <cstdint>
#include <vector>

namespace tracecast {

/// Ranks as the refinement sees them.
struct RankRelations {
  /// Communicators that divide the ranks among them.
  struct Family {
    std::vector<std::int32_t> group_of;  ///< [rank]
    std::vector<std::int32_t> label;     ///< [group]
  };
  std::vector<std::int32_t> seed;  ///< [rank]
  std::vector<Family> families;
  /// [k][rank] its k-th partner in messages; -1: none
  std::vector<std::vector<std::int32_t>> partners;
};

/// Classes are numbered by their first rank.
struct RankClasses {
  std::vector<std::int32_t> class_of;                  ///< [rank]
  std::vector<std::int32_t> first;                     ///< [class] its first rank, the representative
  std::vector<std::int32_t> size;                      ///< [class]
  std::vector<std::vector<std::int32_t>> group_class;  ///< [family][group] equal: the same label and members' classes
  std::int32_t group_classes = 0;                      ///< how many, of all families together
};

RankClasses refine(const RankRelations& relations);
/// Each rank and each group in a separate class.
RankClasses every_rank(const RankRelations& relations);

}  // namespace tracecast
