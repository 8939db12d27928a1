/// \file
/// How the communicators and the stage boundaries of a plan lie in the cluster.
///
/// Moving a group by whole units of a tier that it does not leave changes nothing about its placement (the cluster is
/// regular), so groups are placed once for each position within such a unit: a node for those inside nodes, else the units of
/// a tier. Two ranks whole nodes apart lie as any other two with the same GPUs that leave the same tiers. With faults at
/// single nodes the cluster is not regular, and every group is placed.
#pragma once

#include <map>
#include <optional>
#include <utility>
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

  /// The placements of the parts of one block, [part]; `begin` is the block's first rank. -1: no such part; of
  /// whole blocks there is one.
  const std::vector<std::int32_t>& block(Slot slot, int begin);
  /// The message between `rank` and the rank with the same coordinates on pipeline rank `other`. Every rank of the node
  /// whose partner sits in another node uses the node's NICs at the same time.
  std::int32_t boundary(int rank, int other);

  /// How a rank lies that has nobody to communicate with.
  std::int32_t alone() { return number_of(GroupPlacement{}); }
  /// The boundaries of all ranks of pipeline rank `pp` with pipeline rank `other`, if they lie alike.
  std::optional<std::int32_t> common_boundary(int pp, int other);

  /// Pipeline ranks of equal numbers lie alike as far as the groups of a slot go.
  int lies_as(Slot slot, int pp) const { return pp * plan_.grid.stride(Axis::pp) % unit_of(slot); }

  /// First ranks of the slot's blocks that touch pipeline rank `pp`, those that lie alike once.
  std::vector<int> distinct_blocks(Slot slot, int pp) const;
  /// Ranks of pipeline rank `pp`, those that lie alike once.
  std::vector<int> distinct_ranks(int pp) const;

 private:
  std::int32_t number_of(const GroupPlacement& placement);
  /// Two ranks so far apart of equal numbers lie alike.
  int boundary_lies_as(int lower, int distance) const;
  int leave_same_tiers_until(int lower, int distance) const;
  std::int32_t boundary_at(std::map<int, std::int32_t>& known, int lower, int distance);
  std::vector<std::int32_t> place_block(Slot slot, int begin);
  GroupPlacement place_group(const std::vector<int>& members) const;
  GroupPlacement place_boundary(int rank, int partner) const;
  /// All sums of coordinates along `axes` from `origin` on, those that differ by whole units once.
  std::vector<int> distinct_sums(int origin, const std::vector<Axis>& axes, int unit) const;
  /// Ranks by which a group of the slot can be moved.
  int unit_of(Slot slot) const { return unit_of_slot_[static_cast<std::size_t>(slot)]; }

  const Plan& plan_;
  const Cluster& cluster_;
  const Groups& groups_;
  std::vector<int> units_;  ///< ranks of a node, of the units of each tier, of the whole job: each divides the next
  std::vector<int> unit_of_slot_;
  std::vector<GroupPlacement> known_;
  std::vector<std::map<int, std::vector<std::int32_t>>> blocks_;  ///< [slot] by position in the unit
  std::map<int, std::map<int, std::int32_t>> boundaries_;  ///< by distance of the two ranks and boundary_lies_as()
  std::map<std::pair<int, int>, std::optional<std::int32_t>>
      common_boundaries_;  ///< by lower pipeline rank and distance
};

}  // namespace tracecast
