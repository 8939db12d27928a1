/// \file
/// What training adds to the times of isolated kernels: factors by kind of work, and the time of the host.
/// Found on published runs (catalogue.hpp, docs/references.md#in-training-factors).
#pragma once

#include "sim/cost/profile.hpp"
#include "tools/accuracy/fit/catalogue.hpp"

namespace tracecast::accuracy {

/// Sets the factors between isolated kernels and the shares found inside training steps.   Requires all kernel models
void set_in_training(Profile& profile, const Achieved& achieved);

/// What multiplications lose inside a step is what those of another GPU lose, times `relative`.
void take_factors(const InTraining& other, double relative, InTraining& factors);

/// Host times depend on the server and the framework more than on the GPU.
HostModel host_model(const Gpu& gpu);

}  // namespace tracecast::accuracy
