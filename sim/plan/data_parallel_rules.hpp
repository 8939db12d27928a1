/// \file
/// What each framework does in data parallelism, as a table: a rule that sets frameworks apart is a column here, and its users ask for
/// the rule, not for the framework.
/// Source: docs/references.md#fsdp-variants; of single rules, what their columns name
#pragma once

#include <cstddef>
#include <optional>

#include "sim/plan/parallel.hpp"

namespace tracecast {

/// Who divides, reduces and gathers: parallel.data_parallel and parallel.zero_stage together.
enum class DataParallelFramework {
  megatron,         ///< stages 0 to 2 of Megatron-LM; parameter servers and averaging replicas work as it does
  fsdp1,            ///< PyTorch's FullyShardedDataParallel
  fsdp2,            ///< PyTorch's fully_shard, and frameworks like it
  ddp,              ///< PyTorch's DistributedDataParallel
  deepspeed,        ///< its stages 0 to 2
  deepspeed_stage3  ///< its stage 3
};

/// What closes a bucket of gradients.
enum class BucketRule { megatron, ddp, deepspeed };

struct DataParallelRules {
  DataParallelFramework framework = DataParallelFramework::megatron;
  BucketRule buckets = BucketRule::megatron;
  /// Gradients are reduced unit by unit, and weights kept as fp32 shards. Others fill buckets.   docs/references.md#pytorch-fsdp
  bool reduces_units = false;
  /// Embedding and output layer are one unit, whatever is set.   docs/references.md#fsdp-root
  bool joint_root = false;
  /// Parameters are views of what was gathered: no copy.   docs/references.md#fsdp-copies
  bool views_gathered = false;
  /// Parameters stay gathered through backwards that do not reduce, unless they are freed after the forward, too.
  bool keeps_unreduced = false;
  /// Can leave the reduction to the last of several micro-batches, and the parameters of a pipeline gathered until then.
  /// docs/references.md#fsdp-accumulation, docs/references.md#fsdp-pipelines
  bool waits_for_last = true;
  /// One CUDA stream issues all gathers and another all reductions; else each process group has its own.
  /// docs/references.md#communicators
  bool one_stream_each = false;
  /// Every rank gets the sum of each bucket, of which it keeps its part.   docs/references.md#deepspeed-reduction
  bool sums_on_every_rank = false;
  /// Without overlap, reduces on the stream that computes.   docs/references.md#deepspeed-reduction
  bool reduces_on_compute = false;
  /// Sets all gradients to zero behind an update; others drop them (set_to_none).
  bool clears_gradients = false;
  /// Buckets are copies of the gradients, which stay.   docs/references.md#ddp-buckets
  bool copies_gradients = false;
  /// Gathers ahead a number of elements (prefetch_bucket_size), and leaves small tensors whole (param_persistence_threshold).
  bool gathers_elements = false;
  /// With an offloaded optimizer the host keeps the sum of micro-batches, which is added to on the GPU.   docs/references.md#offloading
  bool sums_for_host = false;
  /// Does it overlap gathers and reductions if neither user nor stack says so?   docs/references.md#deepspeed-defaults
  std::optional<bool> overlaps_unless_told = {};

  /// DeepSpeed has buffers and gathers of a bucket's size, too.   docs/references.md#deepspeed-buffers
  bool has_sized_buffers() const { return buckets == BucketRule::deepspeed; }
};

/// What each framework does; a member that is not named has its default.
inline constexpr DataParallelRules kDataParallelRules[] = {
    {.framework = DataParallelFramework::megatron, .clears_gradients = true},
    {.framework = DataParallelFramework::fsdp1,
     .reduces_units = true,
     .joint_root = true,
     .views_gathered = true,
     .keeps_unreduced = true,
     .one_stream_each = true},
    {.framework = DataParallelFramework::fsdp2, .reduces_units = true, .one_stream_each = true},
    {.framework = DataParallelFramework::ddp, .buckets = BucketRule::ddp, .copies_gradients = true},
    {.framework = DataParallelFramework::deepspeed,
     .buckets = BucketRule::deepspeed,
     .waits_for_last = false,
     .one_stream_each = true,
     .sums_on_every_rank = true,
     .reduces_on_compute = true,
     .gathers_elements = true,
     .sums_for_host = true,
     .overlaps_unless_told = false},
    {.framework = DataParallelFramework::deepspeed_stage3,
     .buckets = BucketRule::deepspeed,
     .waits_for_last = false,
     .one_stream_each = true,
     .reduces_on_compute = true,
     .gathers_elements = true,
     .sums_for_host = true,
     .overlaps_unless_told = true},
};

constexpr bool rows_follow_the_frameworks() {
  std::size_t index = 0;
  for (const DataParallelRules& row : kDataParallelRules)
    if (static_cast<std::size_t>(row.framework) != index++) return false;
  return true;
}
static_assert(rows_follow_the_frameworks());

/// Of the framework that a layout names.
constexpr const DataParallelRules& rules_of(const Parallel& parallel) {
  const bool stage_3 = parallel.zero_stage >= 3;
  const auto row = [](DataParallelFramework framework) -> const DataParallelRules& {
    return kDataParallelRules[static_cast<std::size_t>(framework)];
  };
  switch (parallel.data_parallel) {
    case DataParallelKind::deepspeed:
      return row(stage_3 ? DataParallelFramework::deepspeed_stage3 : DataParallelFramework::deepspeed);
    case DataParallelKind::fsdp1:
      return row(stage_3 ? DataParallelFramework::fsdp1 : DataParallelFramework::megatron);
    case DataParallelKind::ddp:
      return row(stage_3 ? DataParallelFramework::fsdp2 : DataParallelFramework::ddp);
    case DataParallelKind::automatic:
    case DataParallelKind::parameter_server:
    case DataParallelKind::async_parameter_server:
    case DataParallelKind::parameter_averaging:
      return row(stage_3 ? DataParallelFramework::fsdp2 : DataParallelFramework::megatron);
  }
  return kDataParallelRules[0];
}

}  // namespace tracecast
