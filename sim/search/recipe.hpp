/// The recipe that practitioners follow by hand: raise data parallelism as far as memory allows, then trade tensor and
/// pipeline parallelism against micro-batch size and recomputation, keeping what is faster.
///
///   1. tp x pp from small to large (that is dp from large to small; tensor parallelism before pipelines), smallest
///      micro-batch, least recomputation first, until something fits
///   2. from there one choice at a time is moved to its next or previous value (tp, pp, vpp, micro-batch, recomputation);
///      the move that saves most is taken, until none saves anything
///
/// It looks at few layouts and may end beside the best one: its gap to the search's answer is what it costs to go by hand.
/// Source: docs/references.md#case-studies (the order of a talk on training 13B to 175B models on 96 to 392 GPUs)
#pragma once

#include <string>
#include <vector>

#include "sim/search/planner.hpp"

namespace tracecast {

/// Which kinds of parallelism, before anything is tried: the tensor degree that weights and gradients (2 + 2 bytes a
/// parameter) ask for decides.
///
///   1                                            FSDP alone
///   2 or more, all GPUs in one node              TP alone
///   2 or more, several nodes                     TP in the node, FSDP across nodes
///   more than a node has                         TP, PP and FSDP
///
/// It gives the kinds of the table it was published with: FSDP for 7B and 13B, TP + FSDP for 70B, all three for 405B.
/// Shown beside our own numbers, never in their place.   Source: docs/references.md#case-studies
enum class RuleOfThumb { fsdp, tp, tp_fsdp, tp_pp_fsdp };
const char* to_string(RuleOfThumb kinds);
RuleOfThumb rule_of_thumb(double parameters, double memory_gb, double activations_gb, int gpus, int gpus_per_node);
/// For this job: activations are those of full recomputation with one sequence on one GPU, 2 s h L bytes.
RuleOfThumb rule_of_thumb(const Scenario& scenario);

/// Its tensor degree: the smallest that divides a node's GPUs and is at least states / (memory - activations) (both of one
/// GPU, `states` = weights + gradients of the whole model); 0 when a node is not enough.
int least_tensor_parallel(double states_gb, double memory_gb, double activations_gb, int gpus_per_node);

struct RecipeStep {
  std::string move;  ///< "tp 8 x pp 2, recomputation none", "pp 4 -> 8"
  Evaluation evaluation;
  bool taken = false;
  double faster_by = 0;  ///< share of the step before the move; negative: slower. Not for what does not fit
  Bytes memory_change;   ///< against the layout before the move
};

struct RecipeTrace {
  RuleOfThumb rule = RuleOfThumb::fsdp;
  std::vector<RecipeStep> steps;  ///< in the order in which they were tried
  bool found = false;             ///< something fits
  Evaluation last;                ///< where it ends
};

/// Choices that it does not move (ZeRO stage, context and expert parallelism, schedule) stay as the scenario has them.
RecipeTrace follow_recipe(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

}  // namespace tracecast
