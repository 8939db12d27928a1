/// \file
/// What one rank keeps of its parameters all the time, apart from a whole plan's memory (memory.hpp).
#pragma once

#include <cstdint>

#include "sim/plan/memory.hpp"
#include "sim/plan/rank_parameters.hpp"

namespace tracecast {

/// Bytes that one parameter takes without sharding.
///
///   recipe                                       weights  gradients  optimizer
///   16 bit, fp32 master weights (ZeRO, Megatron)    2      2 or 4     12        Adam: master, m, v
///   fp16 with fp16 gradients (Megatron)             2        2        16        and an fp32 copy of the gradients
///   16 bit, ZeRO-3 = FSDP mixed precision           4        4         8        the fp32 shard is the master
///   the same with offload_optimizer (DeepSpeed)     2      2 or 4     12        the fp32 master is the host's
///   16 bit without master weights                   2      2 or 4      4        m, v in 16 bit too
///   fp32                                            4        4         8
/// Other optimizers keep the states of their row in optimizers.hpp in place of m and v; optimizer_state_dtype bf16 halves the states, not
/// the master. adam_8bit keeps m and v in a byte each (their scales, one per 256 elements, are left out). What Muon, Adafactor, Shampoo
/// and SOAP keep of whole matrices is counted apart; the figures here are those of their other parameters.
/// 8- and 4-bit formats keep 16-bit weights; their quantised copies are counted apart, by parameter_states.
/// The fp32 copy belongs to Megatron's optimizer: ZeRO stages 2 and 3 (DeepSpeed, FSDP) do without.
/// Source: docs/references.md#bytes-per-parameter
struct StateBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t total() const { return weights + gradients + optimizer; }
  bool operator==(const StateBytes&) const = default;
};
/// Of one state of one parameter. Without master weights the states are as wide as the parameters.
std::int64_t state_size(const Training& training);
/// Bytes of all states of one parameter that is updated by itself.
std::int64_t states_size(const Training& training);
StateBytes bytes_per_parameter(const Training& training, int zero_stage);

/// The same for `parameters` of one rank whose copies are spread over `shards` ranks: zero_stage 1 divides the optimizer
/// states, 2 the gradients too, 3 the weights too.
MemoryByKind model_states(std::int64_t parameters, const Training& training, int zero_stage, int shards);

/// Weights with their quantised copies, gradients, optimizer states; what is offloaded counts for the host.
/// Requires dp and etp filled in and the sharding strategy applied; stages and grid are not used.
MemoryByKind parameter_states(const RankParameters& held, const Plan& plan, int weight_versions = 1);
/// The part of the optimizer states that are fp32 copies of fp16 gradients. The optimizer makes them for its step, after the
/// activations are freed.
Bytes gradient_copies(const MemoryByKind& states, const Plan& plan);

/// What a checkpoint of the whole model has: of the parameters that are trained (with LoRA the adapters alone) the weights, their fp32
/// master copy where there is one, and the states of the optimizer; no gradients, no frozen weights, no quantised copies.
/// Adam in 16 bits: 2 + 4 + 8 bytes of a parameter; FSDP, whose weights are in fp32, 4 + 8. Left out: the outer optimizer of DiLoCo, scales of 8-bit states.
/// Source: docs/references.md#checkpoint-size
struct SavedState {
  std::int64_t parameters = 0;  ///< that are trained
  Bytes weights;
  Bytes master_weights;
  Bytes optimizer;
  Bytes total() const { return weights + master_weights + optimizer; }
  bool operator==(const SavedState&) const = default;
};
SavedState saved_state(const Model& model, const Training& training, const Parallel& parallel);

}  // namespace tracecast
