#include "sim/plan/replica_nodes.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/plan/rank_parameters.hpp"

namespace tracecast {
namespace {

/// Position of a rank among those that differ from it only along `axes`, in ascending order of ranks, as communicators number them.
int position_along(const RankGrid& grid, const Coordinates& at, std::vector<Axis> axes) {
  std::ranges::sort(axes, {}, [&](Axis axis) { return std::pair(grid.stride(axis), grid.size(axis)); });
  int position = 0, width = 1;
  for (const Axis axis : axes) {
    position += at[axis] * width;
    width *= grid.size(axis);
  }
  return position;
}

/// What every rank holds, numbered, and on which nodes it is.
class Holders {
 public:
  Holders(std::size_t parts, int gpus_per_node) : node_(parts, -1), spread_(parts, false), gpus_(gpus_per_node) {}
  void add(std::size_t part, int rank) {
    const int node = rank / gpus_;
    if (node_[part] >= 0 && node_[part] != node) spread_[part] = true;
    node_[part] = node;
  }
  bool all_spread() const {
    return std::ranges::all_of(spread_, [](bool spread) { return spread; });
  }

 private:
  std::vector<int> node_;  ///< [part] of its last holder, -1: none
  std::vector<bool> spread_;
  int gpus_;
};

}  // namespace

int replicas_per_node(const RankGrid& grid, int gpus_per_node) {
  const int ranks = grid.ranks();
  const int nodes = ceil_div(ranks, gpus_per_node);
  int present = 0;
  for (int node = 0; node < nodes; ++node) {
    std::set<int> replicas;
    for (int rank = node * gpus_per_node; rank < std::min(ranks, (node + 1) * gpus_per_node); ++rank)
      replicas.insert(grid.coordinates(rank)[Axis::dp]);
    present += static_cast<int>(replicas.size());
  }
  return std::max(1, (present + nodes / 2) / nodes);
}

int replicas_together(const Plan& plan) {
  const Parallel& p = plan.parallel;
  const int expert_ranks = p.ep * p.expert_tensor_ranks();
  const int shards = p.zero_stage > 0 ? std::max(1, p.shard_group) : 1;
  return std::min(plan.grid.size(Axis::dp),
                  std::lcm(expert_ranks / std::gcd(expert_ranks, p.tp * p.cp), shards / std::gcd(shards, p.cp)));
}

bool states_survive_node(const Plan& plan, bool has_experts, int gpus_per_node) {
  const RankGrid& grid = plan.grid;
  const Parallel& p = plan.parallel;
  const int shards = p.zero_stage > 0 ? std::min(plan.shard_group(), plan.gradient_group()) : 1;
  const int expert_ranks = p.ep * p.expert_tensor_ranks();
  const int expert_parts = expert_ranks * (p.zero_stage > 0 ? expert_shard_group(plan) : 1);
  const auto stages = static_cast<std::size_t>(grid.size(Axis::pp));
  Holders dense(stages * static_cast<std::size_t>(grid.size(Axis::tp) * shards), gpus_per_node);
  Holders experts(has_experts ? stages * static_cast<std::size_t>(expert_parts) : 0, gpus_per_node);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Coordinates at = grid.coordinates(rank);
    const int shard = position_along(grid, at, {Axis::cp, Axis::dp}) % shards;
    dense.add(static_cast<std::size_t>((at[Axis::pp] * grid.size(Axis::tp) + at[Axis::tp]) * shards + shard), rank);
    const int part = position_along(grid, at, {Axis::tp, Axis::cp, Axis::dp}) % expert_parts;
    if (has_experts) experts.add(static_cast<std::size_t>(at[Axis::pp] * expert_parts + part), rank);
  }
  return dense.all_spread() && experts.all_spread();
}

}  // namespace tracecast
