/// \file
/// The placement of the communicators and the stage boundaries of a plan in the cluster.
///
/// The cluster is regular: a group has the same placement after a move by whole units of a tier that it does not
/// leave. So groups are placed once for each position within such a unit: a node for groups inside nodes, else a unit
/// of a tier. Two pairs of ranks that are as far apart have equivalent placements if they have the same GPUs and leave the
/// same tiers, and if as many other ranks of the node send as far. With faults of single nodes the cluster is not regular, and
/// every group is placed.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/graph/groups.hpp"
#include "sim/graph/stage_placement.hpp"
#include "sim/network/cluster.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

class Placements {
 public:
  Placements(const Plan& plan, const Cluster& cluster, const Groups& groups);

  /// A placement by its number: equal numbers, equal placements.
  const GroupPlacement& of(std::int32_t number) const { return known_[static_cast<std::size_t>(number)]; }

  /// The placements of the parts of one block, [part]; `begin` is the block's first rank. -1: no such part; of
  /// whole blocks there is one.
  const std::vector<std::int32_t>& block(Slot slot, int begin);
  /// The placement of the group of `rank`. It is placed without the others of its block.
  std::int32_t of_group(Slot slot, int rank);
  /// The placement of messages between `rank` and the rank with the same coordinates on pipeline rank `other`. All
  /// ranks of a node whose partners are on other nodes use the node's NICs at the same time.
  std::int32_t boundary(int rank, int other);

  /// The placement of a group of one rank.
  std::int32_t alone() {
    if (alone_ < 0) alone_ = number_of(GroupPlacement{});
    return alone_;
  }
  /// The common placement of the boundaries of all ranks of pipeline rank `pp` with pipeline rank `other`, if there
  /// is one.
  std::optional<std::int32_t> common_boundary(int pp, int other);

  /// The pipeline rank of a rank.
  int pp_of(int rank) const { return rank / plan_.grid.stride(Axis::pp) % plan_.grid.size(Axis::pp); }

  /// Groups of a slot have equivalent placements on pipeline ranks of one class.
  int placement_class(Slot slot, int pp) const { return pp * plan_.grid.stride(Axis::pp) % unit_of(slot); }

  /// First ranks of the slot's blocks that contain ranks of pipeline rank `pp`: one of each placement class.
  std::vector<int> distinct_blocks(Slot slot, int pp) const;

 private:
  /// The groups of a slot, which are the same in each of its blocks.
  struct SlotGroups {
    std::vector<int> offsets;               ///< [position in the block] its rank, counted from the block's first
    std::vector<std::size_t> parts;         ///< [position] its group
    std::vector<std::pair<int, int>> ends;  ///< [position] offsets of the first and the last rank of its group
  };

  std::int32_t number_of(const GroupPlacement& placement);
  /// Pairs of ranks `distance` apart have equivalent placements if their classes are equal.
  int boundary_class(int lower, int distance) const;
  int leave_same_tiers_until(int lower, int distance) const;
  std::int32_t boundary_at(std::map<int, std::int32_t>& known, int lower, int distance);
  std::vector<std::int32_t> place_block(Slot slot, int begin);
  const SlotGroups& groups_of(Slot slot);
  /// The ranks of the node of `rank` whose groups of this slot have ranks on other nodes, too; ascending.
  const std::vector<int>& leaving_ranks(Slot slot, int rank);
  int sharing(Slot slot, std::span<const int> members);
  GroupPlacement place_group(Slot slot, std::span<const int> members);
  GroupPlacement place_boundary(int rank, int partner) const;
  /// The ranks that differ from `origin` along `axes`: one of those that differ by whole units.
  std::vector<int> distinct_sums(int origin, const std::vector<Axis>& axes, int unit) const;
  /// A move by this number of ranks keeps the placement of the slot's groups.
  int unit_of(Slot slot) const { return unit_of_slot_[static_cast<std::size_t>(slot)]; }

  const Plan& plan_;
  const Cluster& cluster_;
  const Groups& groups_;
  std::vector<int> units_;  ///< ranks of a node, of the units of each tier, of the whole job: each divides the next
  std::vector<int> stage_ranks_;  ///< of pipeline rank 0, ascending; those of the others are as many strides higher
  std::vector<int> unit_of_slot_;
  std::vector<GroupPlacement> known_;
  std::int32_t alone_ = -1;  ///< number of the placement of a group of one rank; -1: not known yet
  std::vector<std::map<int, std::vector<std::int32_t>>> blocks_;  ///< [slot] by position in the unit
  std::map<std::pair<Slot, int>, std::int32_t>
      groups_of_ranks_;  ///< by slot and position of the first rank in the unit
  std::map<Slot, SlotGroups> slot_groups_;
  std::map<std::pair<Slot, int>, std::vector<int>> leaving_ranks_;  ///< by slot and node
  std::map<int, std::map<int, std::int32_t>> boundaries_;  ///< by distance of the two ranks and boundary_class()
  std::map<std::pair<int, int>, std::optional<std::int32_t>>
      common_boundaries_;  ///< by lower pipeline rank and distance
};

}  // namespace tracecast
