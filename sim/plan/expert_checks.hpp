/// \file
/// Checks of what settings say about experts: routing, capacity, copies and placement.
#pragma once

#include "sim/model/model.hpp"
#include "sim/plan/parallel.hpp"
#include "sim/plan/plan_check.hpp"

namespace tracecast {

/// Of a model without experts: that no setting is about them.
void check_experts(PlanCheck& check, const Model& model, const Parallel& parallel, const Training& training);

}  // namespace tracecast
