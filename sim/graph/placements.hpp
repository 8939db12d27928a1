/// How the communicators and the stage boundaries of a plan lie in the cluster.
///
/// Moving a group by whole units of the fabric's largest bounded tier changes nothing about its placement (the cluster
/// is regular), so groups are placed once for each position within such a unit. With faults at single nodes the cluster
/// is not regular, and every group is placed.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "sim/graph/groups.hpp"
#include "sim/graph/pipeline_seats.hpp"
#include "sim/network/cluster.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

class Placements {
 public:
  Placements(const Plan& plan, const Cluster& cluster, const Groups& groups);

  /// Numbers of placements: equal numbers, equal placements.
  const GroupPlacement& of(std::int32_t number) const { return known_[static_cast<std::size_t>(number)]; }

  /// The placements of the parts of one block, [part]; `begin` is the block's first rank. -1: no such part.
  const std::vector<std::int32_t>& block(Slot slot, int begin);
  /// The message between `rank` and the rank with the same coordinates on pipeline rank `other`. Every rank of the node
  /// whose partner sits in another node uses the node's NICs at the same time.
  std::int32_t boundary(int rank, int other);

  /// How a rank lies that has nobody to communicate with.
  std::int32_t alone() { return number_of(GroupPlacement{}); }
  /// The boundaries of all ranks of pipeline rank `pp` with pipeline rank `other`, if they lie alike.
  std::optional<std::int32_t> common_boundary(int pp, int other);

  /// First ranks of the slot's blocks that touch pipeline rank `pp`, those that lie alike once.
  std::vector<int> distinct_blocks(Slot slot, int pp) const;
  /// Ranks of pipeline rank `pp`, those that lie alike once.
  std::vector<int> distinct_ranks(int pp) const;

 private:
  std::int32_t number_of(const GroupPlacement& placement);
  /// Of two ranks so far apart of which the lower is at `lower` in the unit.
  std::int32_t boundary_at(std::vector<std::int32_t>& known, int lower, int distance);
  std::vector<std::int32_t>& boundaries_over(int distance);
  std::vector<std::int32_t> place_block(Slot slot, int begin);
  GroupPlacement place_group(const std::vector<int>& members) const;
  GroupPlacement place_boundary(int rank, int partner) const;
  /// All sums of coordinates along `axes` from `origin` on, those that lie alike once.
  std::vector<int> distinct_sums(int origin, const std::vector<Axis>& axes) const;
  int alike(int rank) const { return rank % unit_; }

  const Plan& plan_;
  const Cluster& cluster_;
  const Groups& groups_;
  int unit_;  ///< ranks after which the cluster repeats itself
  std::vector<GroupPlacement> known_;
  std::vector<std::map<int, std::vector<std::int32_t>>> blocks_;  ///< [slot] by position in the unit
  std::map<int, std::vector<std::int32_t>> boundaries_;  ///< by distance of the two ranks, [position in the unit]
};

}  // namespace tracecast
