#include "sim/graph/groups.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace tracecast {

std::vector<int> Groups::members(int rank, Slot slot) const {
  switch (slot) {
    case Slot::tensor:
      return plan_.grid.group(rank, {Axis::tp});
    case Slot::context:
      return plan_.grid.group(rank, {Axis::cp});
    case Slot::expert:
      return expert_members(rank, false);
    case Slot::expert_gradients:
    case Slot::expert_parameters:
      return expert_members(rank, true);
    case Slot::gradients:
    case Slot::parameters:
      return shard_members(rank, false);
    case Slot::replicas:
      return shard_members(rank, true);
    case Slot::embedding:
      return embedding_members(rank);
    case Slot::mirror:
      return mirror_members(rank);
    case Slot::resharded:
      return resharded_members(rank, shard_members(rank, false));
    case Slot::expert_resharded:
      return resharded_members(rank, expert_members(rank, true));
    case Slot::world:
      break;
  }
  std::vector<int> all(static_cast<std::size_t>(plan_.world_size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Without hybrid sharding: all of dp x cp share one copy, and there is one replica.
std::vector<int> Groups::shard_members(int rank, bool replicas) const {
  const std::vector<int> all = plan_.grid.group(rank, {Axis::dp, Axis::cp});
  const auto size = static_cast<std::size_t>(plan_.shard_group());
  const bool hybrid = plan_.parallel.zero_stage > 0 && size < all.size();
  if (!hybrid) return replicas ? std::vector<int>{rank} : all;
  const auto index = static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
  std::vector<int> group;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (replicas ? i % size == index % size : i / size == index / size) group.push_back(all[i]);
  return group;
}

/// Neighbours of `all`, in groups of reshard_group (or of as many as divide `all` evenly).
std::vector<int> Groups::resharded_members(int rank, const std::vector<int>& all) const {
  if (plan_.parallel.reshard_group == 0) return {rank};
  const auto size = std::gcd(static_cast<std::size_t>(plan_.parallel.reshard_group), all.size());
  const auto index = static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(index / size * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

std::vector<int> Groups::expert_members(int rank, bool data) const {
  const std::vector<int> all = plan_.grid.group(rank, {Axis::tp, Axis::cp, Axis::dp});
  const auto etp = static_cast<std::size_t>(plan_.parallel.etp > 0 ? plan_.parallel.etp : plan_.parallel.tp);
  const auto ep = static_cast<std::size_t>(plan_.parallel.ep);
  const auto index = static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
  std::vector<int> group;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool same_tensor = i % etp == index % etp;
    const bool same_expert = i / etp % ep == index / etp % ep;
    const bool same_data = i / (etp * ep) == index / (etp * ep);
    if (same_tensor && (data ? same_expert : same_data)) group.push_back(all[i]);
  }
  return group;
}

std::vector<int> Groups::embedding_members(int rank) const {
  Coordinates at = plan_.grid.coordinates(rank);
  if (at[Axis::pp] != first_stage_ && at[Axis::pp] != last_stage_) return {rank};
  at[Axis::pp] = first_stage_;
  const int first = plan_.grid.rank(at);
  at[Axis::pp] = last_stage_;
  const int last = plan_.grid.rank(at);
  if (first == last) return {rank};
  return {std::min(first, last), std::max(first, last)};
}

std::vector<int> Groups::mirror_members(int rank) const {
  Coordinates at = plan_.grid.coordinates(rank);
  at[Axis::pp] = plan_.parallel.pp - 1 - at[Axis::pp];
  const int other = plan_.grid.rank(at);
  if (other == rank) return {rank};
  return {std::min(rank, other), std::max(rank, other)};
}

int expert_nodes(const Plan& plan, const Cluster& cluster) {
  const std::vector<int> members = Groups(plan, 0, 0).members(0, Slot::expert);
  std::set<int> nodes;
  for (const int member : members) nodes.insert(cluster.node_of(member));
  return static_cast<int>(nodes.size());
}

}  // namespace tracecast
