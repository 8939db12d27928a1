/// \file
/// Bytes that frameworks read and write of gradients on the stream that computes, beside their reductions: copies into what is reduced,
/// casts, divisions, and sums over micro-batches. A kernel reads what it takes and writes what it makes, once each.
/// Source: docs/references.md#fsdp-copies, docs/references.md#deepspeed-copies, docs/references.md#ddp-buckets,
/// docs/references.md#gradient-sums
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"
#include "sim/plan/data_parallel_rules.hpp"

namespace tracecast {

/// Bytes of a gradient in each of its types.
struct GradientTypes {
  std::int64_t made = 0;     ///< by the backward: as parameters compute
  std::int64_t summed = 0;   ///< over micro-batches, and reduced unless DeepSpeed says otherwise (grad_reduce_dtype)
  std::int64_t sent = 0;     ///< by DeepSpeed (reduced_gradient_size)
  std::int64_t updated = 0;  ///< by the optimizer
};

struct ReducedGradients {
  std::int64_t parameters = 0;
  int ranks = 1;        ///< of the reduction; at least 2
  int reductions = 1;   ///< in a step
  bool summed = false;  ///< over several micro-batches before
};

/// Of one reduction, beside what the collective moves; 0 of Megatron-LM, which reduces the gradients themselves. FSDP1 adds its shard to
/// that of earlier reductions: the mean over a step, whose first one adds nothing.
Bytes copied_bytes(DataParallelFramework framework, const GradientTypes& types, const ReducedGradients& reduced);

/// Of each parameter in one micro-batch, where gradients are reduced once for several: 0 where multiplications add.
struct GradientSum {
  std::int64_t first = 0;  ///< of the step
  std::int64_t later = 0;
  std::int64_t last = 0;  ///< beside what its reduction copies
  bool operator==(const GradientSum&) const = default;
};
GradientSum summed_bytes(DataParallelFramework framework, const GradientTypes& types);

}  // namespace tracecast
