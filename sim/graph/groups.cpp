#include "sim/graph/groups.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "sim/plan/rank_parameters.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {

std::vector<Axis> Groups::block_axes(Slot slot) {
  switch (slot) {
    case Slot::tensor:
    case Slot::alone:
      return {Axis::tp};
    case Slot::context:
    case Slot::context_2:
    case Slot::context_4:
    case Slot::context_8:
    case Slot::context_16:
      return {Axis::cp};
    case Slot::expert:
    case Slot::expert_tensor:
    case Slot::expert_gradients:
    case Slot::expert_parameters:
    case Slot::expert_replicas:
    case Slot::expert_resharded:
      return {Axis::tp, Axis::cp, Axis::dp};
    case Slot::gradients:
    case Slot::parameters:
    case Slot::replicas:
    case Slot::resharded:
      return {Axis::dp, Axis::cp};
    case Slot::embedding:
    case Slot::mirror:
      return {Axis::pp};
    case Slot::world:
    case Slot::replica:
      break;
  }
  return {Axis::tp, Axis::cp, Axis::dp, Axis::pp};
}

bool Groups::alone(Slot slot) const {
  if (slot == Slot::replica) return !has_replicas();
  if (!needed_.experts && block_axes(slot) == block_axes(Slot::expert)) return true;
  int size = 1;
  for (const Axis axis : block_axes(slot)) size *= plan_.grid.size(axis);
  std::vector<bool> taken(static_cast<std::size_t>(size));
  for (int position = 0; position < size; ++position) {
    const auto own = static_cast<std::size_t>(part(slot, position));
    if (taken[own]) return false;
    taken[own] = true;
  }
  return true;
}

std::vector<int> Groups::block_begins(Slot slot) const {
  std::vector<Axis> outside{Axis::pp, Axis::dp, Axis::cp, Axis::tp};
  for (const Axis axis : block_axes(slot)) std::erase(outside, axis);
  return plan_.grid.group(0, outside);
}

int Groups::block_begin(int rank, Slot slot) const {
  const Coordinates at = plan_.grid.coordinates(rank);
  for (const Axis axis : block_axes(slot)) rank -= at[axis] * plan_.grid.stride(axis);
  return rank;
}

int Groups::part(Slot slot, int position) const {
  switch (slot) {
    case Slot::expert:
      return expert_part(position, false);
    case Slot::expert_tensor:
      return needed_.experts && plan_.has_own_expert_tensor_groups() ? position / plan_.parallel.expert_tensor_ranks()
                                                                     : position;
    case Slot::expert_parameters:
      return needed_.gathers ? expert_part(position, true) : position;
    case Slot::expert_replicas:
      return expert_replica_part(position);
    case Slot::expert_gradients:
      return expert_part(position, true);
    case Slot::parameters:
      return needed_.gathers ? shard_part(position, false) : position;
    case Slot::gradients:
      return shard_part(position, false);
    case Slot::replicas:
      return shard_part(position, true);
    case Slot::resharded:
      return resharded_part(position);
    case Slot::expert_resharded:
      return expert_resharded_part(position);
    case Slot::replica:
      return replica_part(position);
    case Slot::alone:
      return position;
    case Slot::embedding:
      return embedding_part(position);
    case Slot::mirror:  // bidirectional schedules hold every stage twice, on pipeline ranks r and P - 1 - r
      return needed_.mirrors ? std::min(position, plan_.parallel.pp - 1 - position) : position;
    case Slot::context_2:
      return context_part(position, 2);
    case Slot::context_4:
      return context_part(position, 4);
    case Slot::context_8:
      return context_part(position, 8);
    case Slot::context_16:
      return context_part(position, 16);
    case Slot::tensor:
    case Slot::context:
    case Slot::world:
      break;
  }
  return 0;
}

/// The whole group has its own slot.
int Groups::context_part(int position, int ranks) const {
  return plan_.context_varies() && ranks < plan_.parallel.cp ? position / ranks : position;
}

std::vector<int> Groups::members(int rank, Slot slot) const {
  const std::vector<int> all = block(rank, slot);
  const auto own = std::lower_bound(all.begin(), all.end(), rank) - all.begin();
  const int wanted = part(slot, static_cast<int>(own));
  std::vector<int> group;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (part(slot, static_cast<int>(i)) == wanted) group.push_back(all[i]);
  return group;
}

std::vector<std::int64_t> Groups::key() const {
  const Parallel& p = plan_.parallel;
  return {first_stage_,
          last_stage_,
          needed_.experts,
          needed_.embedding,
          needed_.mirrors,
          needed_.gathers,
          p.tp,
          p.ep,
          p.expert_tensor_ranks(),
          p.pp,
          p.reshard_group,
          plan_.context_varies(),
          hybrid(),
          has_replicas(),
          plan_.shard_group(),
          plan_.gradient_group()};
}

bool Groups::hybrid() const { return plan_.parallel.zero_stage > 0 && plan_.shard_group() < plan_.gradient_group(); }

/// Without hybrid sharding: all of dp x cp share one copy, and there is one replica.
int Groups::shard_part(int position, bool replicas) const {
  const int size = plan_.shard_group();
  if (!hybrid()) return replicas ? position : 0;
  return replicas ? position % size : position / size;
}

bool Groups::has_replicas() const { return averages_parameters(plan_.parallel) && plan_.parallel.pp > 1; }

/// The grid has no other axes than those of the block: a position is a rank.
int Groups::replica_part(int position) const {
  if (!has_replicas()) return position;
  const Coordinates at = plan_.grid.coordinates(position);
  return at[Axis::dp] / (hybrid() ? plan_.shard_group() : 1);
}

/// Neighbours of a group that shares one copy, in groups of reshard_group (or of as many as divide it evenly).
int Groups::resharded_part(int position) const {
  if (plan_.parallel.reshard_group == 0) return position;
  const int copy =
      plan_.parallel.zero_stage > 0 ? std::min(plan_.shard_group(), plan_.gradient_group()) : plan_.gradient_group();
  const int size = std::gcd(plan_.parallel.reshard_group, copy);
  return position / copy * (copy / size) + position % copy / size;
}

/// The same of the ranks that hold one expert.
int Groups::expert_resharded_part(int position) const {
  if (!needed_.experts || plan_.parallel.reshard_group == 0) return position;
  const int etp = plan_.parallel.expert_tensor_ranks();
  const int experts = etp * plan_.parallel.ep;
  const int holders = expert_shard_group(plan_);
  const int size = std::gcd(plan_.parallel.reshard_group, holders);
  return position % experts + experts * (position / experts / size);
}

int Groups::expert_part(int position, bool data) const {
  if (!needed_.experts) return position;
  const int etp = plan_.parallel.expert_tensor_ranks();
  const int ep = plan_.parallel.ep;
  const int tensor = position % etp;
  const int group = position / (etp * ep);
  if (!data) return tensor + etp * group;
  return position % (etp * ep) + etp * ep * (hybrid() ? group / expert_shard_group(plan_) : 0);
}

/// Ranks of different copies that hold the same part of the same experts.
int Groups::expert_replica_part(int position) const {
  if (!needed_.experts || !hybrid()) return position;
  const int experts = plan_.parallel.ep * plan_.parallel.expert_tensor_ranks();
  return position % experts + experts * (position / experts % expert_shard_group(plan_));
}

/// The two ends of the pipeline together; every other rank alone.
int Groups::embedding_part(int position) const {
  const bool end = position == first_stage_ || position == last_stage_;
  if (end && needed_.embedding) return std::min(first_stage_, last_stage_);
  return position;
}

int expert_nodes(const Plan& plan, const Cluster& cluster) {
  if (plan.parallel.ep == 1) return 1;
  const std::vector<int> members = Groups(plan, 0, 0, {}).members(0, Slot::expert);
  std::set<int> nodes;
  for (const int member : members) nodes.insert(cluster.node_of(member));
  return static_cast<int>(nodes.size());
}

}  // namespace tracecast
