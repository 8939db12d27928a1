/// \file
/// The manual tuning recipe of practitioners: as much data parallelism as memory allows, then tensor and pipeline
/// parallelism traded for micro-batch size and recomputation as long as the step gets faster.
///
///   1. tp x pp from small to large (that is dp from large to small; tensor parallelism before pipelines), smallest
///      micro-batch, least recomputation first, until a layout fits
///   2. then one choice at a time changes to its next or previous value (tp, pp, vpp, micro-batch, recomputation); the
///      change that saves most time is kept, until none saves time
///
/// It evaluates few layouts and may miss the best one. Its gap to the result of the search is the cost of manual
/// tuning.
/// Source: docs/references.md#case-studies (the order of a talk on training 13B to 175B models on 96 to 392 GPUs)
#pragma once

#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/search/planner.hpp"

namespace tracecast {

/// Which kinds of parallelism to use, before any trial: it depends on the tensor degree that the memory of weights and
/// gradients (2 + 2 bytes per parameter) requires.
///
///   1                                            FSDP alone
///   2 or more, all GPUs in one node              TP alone
///   2 or more, several nodes                     TP in the node, FSDP across nodes
///   more than the GPUs of a node                 TP, PP and FSDP
///
/// It reproduces the table of its publication: FSDP for 7B and 13B, TP + FSDP for 70B, all three for 405B. Reports show
/// it next to simulated numbers.   Source: docs/references.md#case-studies
enum class RuleOfThumb { fsdp, tp, tp_fsdp, tp_pp_fsdp };
template <>
struct EnumNames<RuleOfThumb> {
  static constexpr NamedValue<RuleOfThumb> table[] = {{RuleOfThumb::fsdp, "FSDP"},
                                                      {RuleOfThumb::tp, "TP"},
                                                      {RuleOfThumb::tp_fsdp, "TP + FSDP"},
                                                      {RuleOfThumb::tp_pp_fsdp, "TP + PP + FSDP"}};
};
RuleOfThumb rule_of_thumb(double parameters, double memory_gb, double activations_gb, int gpus, int gpus_per_node);
/// For this job. Activations: full recomputation with one sequence on one GPU, 2 s h L bytes (s sequence length, h
/// hidden size, L layers).
RuleOfThumb rule_of_thumb(const Scenario& scenario);

/// Its tensor degree: the smallest divisor of the GPUs of a node that is at least states / (memory - activations), with
/// `states` = weights + gradients of the whole model and the others of one GPU; 0 if a node is not enough.
int least_tensor_parallel(double states_gb, double memory_gb, double activations_gb, int gpus_per_node);

struct RecipeStep {
  std::string move;  ///< "tp 8 x pp 2, recomputation none", "pp 4 -> 8"
  Evaluation evaluation;
  bool taken = false;
  double faster_by = 0;  ///< share of the step before the move; negative: slower; 0 if it does not fit
  Bytes memory_change;   ///< relative to the layout before the move
};

struct RecipeTrace {
  RuleOfThumb rule = RuleOfThumb::fsdp;
  std::vector<RecipeStep> steps;  ///< in the order in which they were tried
  bool found = false;             ///< a layout fits
  Evaluation last;                ///< the final layout
};

/// Choices outside the recipe (ZeRO stage, context and expert parallelism, schedule) keep the values of the scenario.
RecipeTrace follow_recipe(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

}  // namespace tracecast
