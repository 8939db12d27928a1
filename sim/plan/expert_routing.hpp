/// \file
/// Routing of the tokens of an MoE layer: the load of the fullest rank and the nodes that a token reaches.
///
/// All ranks wait for the fullest one at the next exchange, so every rank is simulated as loaded as it. Its load follows from
///
///   share    of an expert: even; uniform, k / x; skewed, in proportion to exp(skew z), z normal, at most 1; or as
///            `expert_tokens` were counted                        (x experts, k = topk, per token)
///   tokens   of an expert: normal around T share with variance T share (1 - share), T tokens in one exchange;
///            those above expert_capacity_factor T k / x are dropped; expert_capacity_padding fills all experts up to that
///   rank     the sum over its x / ep experts, which are neighbours, or dealt out by share: the largest first, each to the
///            rank with the least that has room (longest processing time first)
///   copies   redundant_experts of a layer: again and again of the expert with most tokens per copy; its tokens are divided
///            evenly, and (x + redundant) / ep copies are dealt out to each rank. With expert_placement_nodes whole routing
///            groups are dealt out to nodes first, and each node has an equal part of the copies (DeepSeek's EPLB)
///   drift    a placement made every N steps (expert_rebalance_steps) knows the shares of then. Logarithms of shares have
///            correlation exp(-age / expert_drift_steps) with those; ages are spread evenly over the N steps
///
/// and is the mean of the fullest rank over kRoutingDraws layers, relative to the mean rank before tokens are dropped.
/// Source: docs/references.md#expert-routing
/// Leaves out: correlation between layers; shares measured with noise; a copy that is preferred because it is near.
#pragma once

#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

inline constexpr int kRoutingDraws = 64;

/// Of the fullest rank of an exchange.
struct ExpertLoad {
  double fullest = 1;  ///< its tokens over the mean
  double dropped = 0;  ///< share of all tokens' copies
  bool operator==(const ExpertLoad&) const = default;
};

/// With expert_routing even and without expert_tokens: expert_imbalance, bounded by what ranks get if every token chooses all experts
/// of one (1 with ep 1) and by expert_capacity_factor where one is set, and dropped copies only of a factor below 1: what an
/// imbalance drops depends on loads that it does not say. With expert_capacity_padding: the factor.
/// Requires   a checked model, ep dividing its experts, dp filled in
ExpertLoad expert_load(const MixtureOfExperts& moe, const Parallel& parallel, const Training& training);

/// Mean number of `parts` of an expert-parallel group, nodes or ranks, that a token's experts lie on, its own included, routing
/// uniform, experts spread evenly:
///
///   n (1 - C(x - x/n, k) / C(x, k))      x experts, k = topk, n parts
///
/// With routing_groups the token first chooses routing_group_limit groups; where a part holds whole groups it reaches that many parts at
/// most, where a group has several parts those of the chosen groups, and its k experts lie in the experts of those.
/// Source: DeepSeek-V3 (arXiv 2412.19437) 2.1.2 and 3.2.2 (at most 4 nodes of 8, 3.2 experts on each)
double parts_reached(const MixtureOfExperts& moe, int parts);

}  // namespace tracecast
