/// \file
/// Ranks that do the same thing at the same time, found by colour refinement.
///
/// Two ranks stay in one class as long as they have the same seed (program, speed), their groups of every family have
/// the same label and the same numbers of members of every class, and their partners are of the same classes. The result
/// is the coarsest such partition: in it every rank of a class sees exactly what its representative sees, so simulating
/// the representatives alone gives what simulating all would give (docs/folding.md).
///
/// Colours are 64-bit hashes, sums over groups; the final partition is then checked exactly, and refined anew with
/// another salt should two colours have met by chance.
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
  /// [k][rank] the rank that it exchanges messages with as its k-th neighbour; -1: none
  std::vector<std::vector<std::int32_t>> partners;
};

/// Classes are numbered by their first rank.
struct RankClasses {
  std::vector<std::int32_t> class_of;                  ///< [rank]
  std::vector<std::int32_t> first;                     ///< [class] its first rank, the representative
  std::vector<std::int32_t> size;                      ///< [class]
  std::vector<std::vector<std::int32_t>> group_class;  ///< [family][group]: groups with the same members' classes
  int rounds = 0;                                      ///< of refinement
};

RankClasses refine(const RankRelations& relations);
/// Every rank a class of its own.
RankClasses every_rank(const RankRelations& relations);

}  // namespace tracecast
