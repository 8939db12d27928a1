/// \file
/// Memory of every pipeline rank, by kind and over the schedule.
///
/// With offload_optimizer the optimizer states are the host's, and in ZeRO stages 2 and 3 the gradients; with
/// offload_parameters the weights, with offload_activations the activations of layers, except the layer that runs and two
/// that are being copied; with offload_layers those of the first layers, except one. Workers of parameter servers have no optimizer states: the servers do. ZeRO-2 that
/// reduces once in a step (a pipeline's) accumulates whole gradients.
///
///   peak = weights + gradients + optimizer + max over time (activations) + transient + fragmentation + fixed
///
/// Source: docs/references.md#bytes-per-parameter, docs/references.md#fsdp-variants and
/// docs/references.md#activation-bytes (Korthikanti et al. 2022 and the Llama count)
/// Leaves out: allocator behaviour beyond one fragmentation factor; staging buffers of offloading; the receive buffers
/// of pipeline messages.
#pragma once

#include <vector>

#include "sim/base/units.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

struct MemoryByKind {
  Bytes weights;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  ///< at the moment of the peak
  Bytes transient;    ///< gathered parameters, unsharded gradients, a layer being recomputed, the loss
  Bytes fixed;        ///< CUDA context, NCCL buffers
  Bytes fragmentation;
  Bytes host;  ///< offloaded: in the host's memory, not in the total
  /// Blocks that a caching allocator keeps though nothing is in them at the peak: they were another phase's or another
  /// stream's. It gives them back when it would run out of memory, so that they are not in the total.
  Bytes cached;
  Bytes total() const { return weights + gradients + optimizer + activations + transient + fixed + fragmentation; }
  /// What frameworks print as their peak: tensors (PyTorch's max_memory_allocated), and what the allocator holds for them
  /// (max_memory_reserved): there `cached` replaces the fragmentation factor.
  Bytes allocated() const { return weights + gradients + optimizer + activations + transient; }
  Bytes reserved() const { return allocated() + cached; }
  bool operator==(const MemoryByKind&) const = default;
};

// docs/references.md#memory-overheads
inline constexpr double kFragmentation = 0.05;   ///< of activations and transients
inline constexpr Bytes kFixedMemory{3LL << 29};  ///< CUDA context and NCCL buffers: 1.5 GiB

/// What one forward of one virtual stage keeps until its backward, on one rank, for one micro-batch.
Bytes activation_bytes(const Model& model, const Plan& plan, const Stage& stage);
/// Of one transformer layer `layer` alone, with the recomputation that the plan asks of it.
///
///   dropout, LayerNorm, GeLU:  sbh(10 + 24/t + 5as/(ht)), with sequence parallelism sbh(34/t + 5as/(ht)); other widths
///                              18 + 4f/h in place of 34; flash attention or selective recomputation: without 5as/h
///   RMSNorm, SwiGLU:           T([8h + 2(a+2k)d + 2ad + 6f]/t + 4a/t), the last for flash attention's log-sum-exp
///   experts:                   T topk (2h + 6f_e/t_e) in place of the dense MLP, plus router scores and shared expert
///   full recomputation:        2Th, divided by t with sequence parallelism
///   op-level (torchtitan):     2Th, attention's result and log-sum-exp, half of every matrix multiplication's result
/// Source: docs/references.md#activation-bytes
Bytes layer_activation_bytes(const Model& model, const Plan& plan, int layer);
/// Layers of a virtual stage whose activations wait on the host, its first.
int offloaded_layers(const Training& training, const Stage& stage);

/// What a backward_input leaves for the backward_weight of the same stage: inputs and output gradients of every weight.
Bytes weight_gradient_bytes(const Model& model, const Plan& plan, const Stage& stage);

/// Parameters that one rank of pipeline rank `pp_rank` holds before sharding over data parallelism (the experts are
/// already divided by ep and etp). Chunk c of the rank is virtual stage c pp + pp_rank; placements of other schedules
/// are counted by peak_memory.
std::int64_t rank_parameters(const Model& model, const Plan& plan, int pp_rank);

/// One entry per pipeline rank: the peak, and what it is made of. Requires a schedule of the plan's stages.
/// Activations follow the schedule's own actions: a forward keeps, a backward releases; a backward_input keeps what the
/// backward_weight needs. Without a flush they are those of many steps that follow each other, which
/// needs a schedule of the table (schedule_variants).
std::vector<MemoryByKind> peak_memory(const Model& model, const Plan& plan, const Schedule& schedule);

}  // namespace tracecast
