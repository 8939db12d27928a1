/// Memory of every pipeline rank, by kind and over the schedule.
///
///   peak = weights + gradients + optimizer + max over time (activations + transient) + fixed
///
/// Bytes per parameter: DOMAIN.md 2.1; FSDP variants 2.2; activations per layer 2.3 (Korthikanti et al. 2022 and the
/// Llama count).   Leaves out: allocator behaviour beyond one fragmentation factor.
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
  Bytes transient;    ///< gathered parameters, logits, workspace
  Bytes fixed;        ///< CUDA context, NCCL buffers
  Bytes fragmentation;
  Bytes total() const {
    return weights + gradients + optimizer + activations + transient + fixed + fragmentation;
  }
  bool operator==(const MemoryByKind&) const = default;
};

struct MemoryOptions {
  double fragmentation = 0.05;          ///< of activations and transients, DOMAIN.md 2.3
  Bytes fixed{3LL << 29};               ///< 1.5 GiB: CUDA context and NCCL buffers, DOMAIN.md 2.3 gives 1 to 2 GB
};

/// What one forward of one virtual stage keeps until its backward, on one rank, for one micro-batch.
Bytes activation_bytes(const Model& model, const Plan& plan, const Stage& stage);
/// Of one transformer layer `layer` alone.
Bytes layer_activation_bytes(const Model& model, const Plan& plan, int layer);

/// Parameters that one rank of pipeline rank `pp_rank` holds before sharding over data parallelism (the experts are
/// already divided by ep and etp).
std::int64_t rank_parameters(const Model& model, const Plan& plan, int pp_rank);

/// One entry per pipeline rank: the peak, and what it is made of.
std::vector<MemoryByKind> peak_memory(const Model& model, const Plan& plan, const Schedule& schedule,
                                      const MemoryOptions& options = {});

}  // namespace tracecast
