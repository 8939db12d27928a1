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

/// What a checkpoint of the whole model has: of the parameters that are trained (with LoRA the adapters alone) the weights, their fp32
/// master copy where there is one, and the states of the optimizer; no gradients, no frozen weights, no quantised copies.
/// Adam in 16 bits: 2 + 4 + 8 bytes of a parameter, however it is sharded: FSDP's fp32 weights are counted as the master copy of 16-bit
/// ones. Left out: the outer optimizer of DiLoCo, scales of 8-bit states.
/// Source: docs/references.md#checkpoint-size
struct SavedState {
  std::int64_t parameters = 0;  ///< that are trained
  Bytes weights;
  Bytes master_weights;
  Bytes optimizer;
  Bytes total() const { return weights + master_weights + optimizer; }
  bool operator==(const SavedState&) const = default;
};
SavedState saved_state(const Model& model, const Training& training);

}  // namespace tracecast
