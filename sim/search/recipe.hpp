/// The recipe that practitioners follow by hand: raise data parallelism as far as memory allows, then trade tensor and
/// pipeline parallelism against micro-batch size and recomputation, keeping what is faster.
///
///   1. tp x pp from small to large (that is dp from large to small; tensor parallelism before pipelines), smallest
///      micro-batch, least recomputation first, until something fits
///   2. from there one choice at a time is moved to its next or previous value (tp, pp, vpp, micro-batch, recomputation);
///      the move that saves most is taken, until none saves anything
///
/// It looks at few layouts and may end beside the best one: its gap to the search's answer is what it costs to go by hand.
/// Source: SEEDS.md 0-18, 0-27, 0-28 (the order of a talk on training 13B to 175B models on 96 to 392 GPUs)
#pragma once

#include <string>
#include <vector>

#include "sim/plan/memory_rules.hpp"
#include "sim/search/planner.hpp"

namespace tracecast {

struct RecipeStep {
  std::string move;  ///< "tp 8 x pp 2, recomputation none", "pp 4 -> 8"
  Evaluation evaluation;
  bool taken = false;
  double faster_by = 0;  ///< share of the step before the move; negative: slower. Not for what does not fit
  Bytes memory_change;   ///< against the layout before the move
};

struct RecipeTrace {
  SeedStrategy rule = SeedStrategy::fsdp;  ///< what a rule of thumb says before anything is tried: rule_of_thumb
  std::vector<RecipeStep> steps;           ///< in the order in which they were tried
  bool found = false;                      ///< something fits
  Evaluation last;                         ///< where it ends
};

/// seed_strategy for this job: activations are those of full recomputation with one sequence on one GPU, 2 s h L bytes.
SeedStrategy rule_of_thumb(const Scenario& scenario);

/// Choices that it does not move (ZeRO stage, context and expert parallelism, schedule) stay as the scenario has them.
RecipeTrace follow_recipe(const Scenario& scenario, const SearchSpace& space, const SearchOptions& options);

}  // namespace tracecast
