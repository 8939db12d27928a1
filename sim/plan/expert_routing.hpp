/// \file
/// Routing of the tokens of an MoE layer: the load of the fullest rank and the nodes that a token reaches.
#pragma once

#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// Tokens of the fullest rank's experts over the mean: expert_imbalance, bounded by expert_capacity_factor where one is
/// set. All ranks wait for that rank at the next exchange, so every rank is simulated as loaded as the fullest.
/// Source: docs/references.md#expert-parallel
double expert_load(const Training& training);

/// Mean number of the `nodes` of an expert-parallel group that a token's experts lie on, its own included, routing
/// uniform, experts spread evenly:
///
///   n (1 - C(x - x/n, k) / C(x, k))      x experts, k = topk, n nodes
///
/// With routing_groups the token first chooses routing_group_limit groups; where a node holds whole groups it reaches that
/// many nodes at most, and its k experts lie in the experts of those.
/// Source: DeepSeek-V3 (arXiv 2412.19437) 2.1.2 and 3.2.2 (at most 4 nodes of 8, 3.2 experts on each)
double nodes_reached(const MixtureOfExperts& moe, int nodes);

}  // namespace tracecast
