/// \file
/// What one rank keeps of its parameters all the time, apart from a whole plan's memory (memory.hpp).
#pragma once

#include "sim/plan/memory.hpp"
#include "sim/plan/rank_parameters.hpp"

namespace tracecast {

/// Weights with their quantised copies, gradients, optimizer states; what is offloaded counts for the host.
/// Requires dp and etp filled in and the sharding strategy applied; stages and grid are not used.
MemoryByKind parameter_states(const RankParameters& held, const Plan& plan, int weight_versions = 1);
/// The part of the optimizer states that are fp32 copies of fp16 gradients. The optimizer makes them for its step, after the
/// activations are freed.
Bytes gradient_copies(const MemoryByKind& states, const Plan& plan);

}  // namespace tracecast
