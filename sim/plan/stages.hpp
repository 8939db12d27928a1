/// \file
/// Cutting a model into virtual stages.
///
/// Three methods, chosen by what the user gives:
///   pp_layout                the layers of each virtual stage, as they stand there
///   account_for_embedding    the embedding and/or the loss count as a layer each: items = layers + 1 + 1, and the
///   account_for_loss         first and the last stage have a layer less (Llama 3: 126 + 2 items over 16 stages)
///   neither                  the same number of layers on every stage
///
/// Items that do not divide are an error, as in Megatron-LM, with one exception: with both embedding and loss counted
/// torchtitan gives the remainder to the first stages, one item each, and so does this.
/// Source: Megatron-LM transformer_config.py (account_for_*_in_pipeline_split, asserts); torchtitan pipeline_parallel.py.
#pragma once

#include <vector>

#include "sim/plan/plan.hpp"

namespace tracecast {

/// pp x vpp stages in the order of the model. Errors: see above; keys parallel.pp, parallel.vpp, parallel.pp_layout.
Result<std::vector<Stage>> cut_stages(const Model& model, const Parallel& parallel);

}  // namespace tracecast
