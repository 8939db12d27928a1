/// \file
/// Checks of a parallel layout: its degrees, and what they divide of the model, the sequence and the cluster.
#pragma once

#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"
#include "sim/plan/plan_check.hpp"

namespace tracecast {

/// Of a model without it heads are not divided.
bool has_attention(const Model& model);

/// Degrees are positive, and small enough to be multiplied. False: one is not, and no other check may run.
bool check_degrees(PlanCheck& check, const Parallel& parallel);

/// Fills in dp, or checks it: tp cp pp dp is the number of ranks. False: no dp fits.
bool fill_dp(PlanCheck& check, Parallel& parallel, int world_size);

/// Tensor and context parallelism, and the pipeline, whatever dp is.
void check_layout(PlanCheck& check, const Model& model, const Parallel& parallel, const Training& training);
void check_encoder(PlanCheck& check, const Model& model, const Parallel& parallel);
/// Requires   dp filled in
void check_expert_parallel(PlanCheck& check, const Model& model, const Parallel& parallel);
/// Requires   dp filled in and a rank_order that can be parsed
void check_rank_order(PlanCheck& check, const Parallel& parallel);

}  // namespace tracecast
