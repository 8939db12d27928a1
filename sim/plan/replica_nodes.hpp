/// \file
/// Which data-parallel replicas the loss of a node takes from a job, and whether the others can go on without them.
///
/// Node n has the ranks n x gpus_per_node to (n + 1) x gpus_per_node - 1.
///
/// Leaves out: nodes that fail together, and what the hosts' memory holds of other ranks.
#pragma once

#include "sim/plan/plan.hpp"

namespace tracecast {

/// Replicas (coordinates of dp) that have ranks on one node: the mean over nodes, rounded; at least 1.
int replicas_per_node(const RankGrid& grid, int gpus_per_node);

/// Replicas of which none can go on without the others, since they share experts or, with hybrid sharding, parameters. Divides
/// dp; dp: no replica can leave.
int replicas_together(const Plan& plan);

/// True if every parameter and optimizer state is on ranks of two nodes or more: a node that is lost takes nothing with it
/// that the job needs. False with ZeRO, unless every shard has copies on several nodes (hybrid sharding); and where experts,
/// or a whole replica, are on one node only.
bool states_survive_node(const Plan& plan, bool has_experts, int gpus_per_node);

}  // namespace tracecast
