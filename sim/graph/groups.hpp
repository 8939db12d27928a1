/// Who communicates with whom: the ranks of every communicator of a plan.
#pragma once

#include <vector>

#include "sim/graph/template_writer.hpp"
#include "sim/network/cluster.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// The communicator groups of a plan. Expert ranks are laid over a stage's tp x cp x dp ranks anew: expert-tensor index
/// fastest, then expert index, then expert-data index (Megatron-LM parallel_state).   Source: DOMAIN.md 0.3.
class Groups {
 public:
  /// `first_stage`, `last_stage`: pipeline ranks that hold the input embedding and the output layer.
  Groups(const Plan& plan, int first_stage, int last_stage)
      : plan_(plan), first_stage_(first_stage), last_stage_(last_stage) {}

  /// The members, ascending, of the group of `rank` for `slot`; {rank} alone when it has none.
  std::vector<int> members(int rank, Slot slot) const;

 private:
  std::vector<int> shard_members(int rank, bool replicas) const;
  std::vector<int> resharded_members(int rank, const std::vector<int>& all) const;
  std::vector<int> expert_members(int rank, bool data) const;
  std::vector<int> embedding_members(int rank) const;
  /// Bidirectional schedules hold every stage twice, on pipeline ranks r and P - 1 - r.
  std::vector<int> mirror_members(int rank) const;

  const Plan& plan_;
  int first_stage_;
  int last_stage_;
};

/// Nodes (scale-up domains) that an expert-parallel group has members in.
int expert_nodes(const Plan& plan, const Cluster& cluster);

}  // namespace tracecast
