/// \file
/// Checks of training settings: sizes, precision, fine-tuning, batches and packed documents.
#pragma once

#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"
#include "sim/plan/plan_check.hpp"

namespace tracecast {

/// Values that need neither the model nor the layout. False: sizes of sequences or batches are wrong, and no other check may run.
bool check_sizes(PlanCheck& check, const Training& training);
/// Positions, precision and fine-tuning, for this model.
void check_training(PlanCheck& check, const Model& model, const Training& training);
/// Micro-batches divide the global batch, and are not too many.   Requires dp filled in
void check_batch(PlanCheck& check, const Parallel& parallel, const Training& training);
/// Requires   dp filled in
void check_documents(PlanCheck& check, const Model& model, const Parallel& parallel, const Training& training);

/// Why a training of so many tokens (0: not asked) cannot be; "": it has at least one step. A data set may be smaller than a step.
std::string less_than_a_step(const Training& training, std::int64_t tokens);

}  // namespace tracecast
