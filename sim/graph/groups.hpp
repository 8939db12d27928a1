/// \file
/// The ranks of every communicator of a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/template_writer.hpp"
#include "sim/network/cluster.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// The communicator groups of a plan. Every group is a part of a block. A block is the ranks that differ only along
/// some axes of the grid, in ascending order. The part of a rank depends only on its position in the block, so all
/// blocks of a slot are divided in the same way.
///
/// Experts divide a stage's tp x cp x dp ranks differently: expert-tensor index fastest, then expert index, then
/// expert-data index (Megatron-LM parallel_state).   Source: docs/references.md#rank-order.
class Groups {
 public:
  /// Groups that only some models and schedules need; without need every rank is a group of one.
  struct Needed {
    bool experts = true;
    bool embedding = true;  ///< both ends of the pipeline hold the table of the embedding
    bool mirrors = true;    ///< the schedule holds every stage twice
    bool gathers = true;    ///< parameters are gathered in groups of their own
  };

  /// `first_stage`, `last_stage`: pipeline ranks that hold the input embedding and the output layer.
  Groups(const Plan& plan, int first_stage, int last_stage, Needed needed)
      : plan_(plan), first_stage_(first_stage), last_stage_(last_stage), needed_(needed) {}

  /// The members, ascending, of the group of `rank` for `slot`; {rank} if it has none.
  std::vector<int> members(int rank, Slot slot) const;

  /// True if every rank is alone in its group of this slot.
  bool alone(Slot slot) const;
  /// The first slot that has the same groups.
  Slot same_groups(Slot slot) const {
    if (!needed_.gathers) return slot;
    return slot == Slot::parameters ? Slot::gradients : slot == Slot::expert_parameters ? Slot::expert_gradients : slot;
  }
  /// True if each block of this slot is one group.
  static bool whole_blocks(Slot slot) { return slot == Slot::tensor || slot == Slot::context || slot == Slot::world; }
  /// Axes of the slot's blocks.
  static std::vector<Axis> block_axes(Slot slot);
  /// The ranks of the block of `rank`, ascending.
  std::vector<int> block(int rank, Slot slot) const { return plan_.grid.group(rank, block_axes(slot)); }
  /// First ranks of all blocks of this slot, ascending. The ranks of each are as far from its first as those of the block of
  /// rank 0.
  std::vector<int> block_begins(Slot slot) const;
  /// First rank of the block of `rank`.
  int block_begin(int rank, Slot slot) const;
  /// Part of its block that the rank at `position` belongs to: a number from 0 to the block's size - 1.
  int part(Slot slot, int position) const;
  /// With the grid, everything that decides the groups: equal numbers, equal groups.
  std::vector<std::int64_t> key() const;

 private:
  bool hybrid() const;
  bool has_replicas() const;
  int replica_part(int position) const;
  int shard_part(int position, bool replicas) const;
  int resharded_part(int position) const;
  int expert_part(int position, bool data) const;
  int expert_replica_part(int position) const;
  int expert_resharded_part(int position) const;
  int embedding_part(int position) const;
  int context_part(int position, int ranks) const;

  const Plan& plan_;
  int first_stage_;
  int last_stage_;
  Needed needed_;
};

/// Nodes (scale-up domains) that an expert-parallel group has members in.
int expert_nodes(const Plan& plan, const Cluster& cluster);

}  // namespace tracecast
