/// \file
/// A recorded step in the words of its forecast, so that `compare` can set them side by side operator by operator: a recording knows
/// kernels, and of their pass only what ranges tell.
#pragma once

#include "sim/io/step_record.hpp"

namespace tracecast {

/// Gives each kernel and transfer of `recorded` the name, kind, pass and phase of the work of `forecast` that it is aligned with: in
/// order, rank by rank, kernels by the kind of their operator, transfers by their collective (tracer/alignment.hpp). What has no
/// counterpart keeps its name. Pauses are left out. The scenario and each rank's place in the pipeline become those of the
/// forecast; the rank of `forecast` for a rank is rank_for().
StepRecord named_as(StepRecord recorded, const StepRecord& forecast);

}  // namespace tracecast
