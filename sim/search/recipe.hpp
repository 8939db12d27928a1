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

#include "sim/search/guideline.hpp"
#include "sim/search/planner.hpp"

namespace tracecast {

struct RecipeStep {
  std::string move;  ///< "tp 8 x pp 2, recomputation none", "pp 4 -> 8"
  Evaluation evaluation;
  bool taken = false;
  double faster_by = 0;  ///< share of the step before the move; negative: slower; 0 if it does not fit
  Bytes memory_change;   ///< relative to the layout before the move
};

struct RecipeTrace {
  Guideline guideline;            ///< what a guide would choose without trials
  std::vector<RecipeStep> steps;  ///< in the order in which they were tried
  bool found = false;             ///< a layout fits
  Evaluation last;                ///< the final layout
};

/// Choices outside the recipe (ZeRO stage, context and expert parallelism, schedule) keep the values of the scenario.
RecipeTrace follow_recipe(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

}  // namespace tracecast
