/// \file
/// What data parallelism divides, under PyTorch FSDP's names:
///
///   strategy              zero_stage  reshard_after_forward  shard_group     collectives of each micro-batch
///   FULL_SHARD                3       true or a number       all             gather, gather, reduce-scatter
///   SHARD_GRAD_OP             3       false                  all             gather, reduce-scatter
///   NO_SHARD                  0                                              all-reduce, once in a step
///   HYBRID_SHARD              3       true or a number       a node's GPUs   as FULL_SHARD inside, all-reduce of a shard
///   _HYBRID_SHARD_ZERO2       3       false                  a node's GPUs   as SHARD_GRAD_OP inside, the same
///
/// FSDP shards the parameters under SHARD_GRAD_OP too: they are whole only from the forward to the end of the backward.
/// DeepSpeed's stage 2, which keeps whole parameters all the time, is zero_stage 2 by itself.
/// Source: PyTorch torch.distributed.fsdp.ShardingStrategy and fully_shard, docs/references.md#pytorch-fsdp,
/// docs/references.md#fsdp-variants
#pragma once

#include <cstdint>

#include "sim/plan/data_parallel_rules.hpp"
#include "sim/plan/parallel.hpp"
#include "sim/plan/plan_check.hpp"

namespace tracecast {

/// Do servers hold the parameters?
bool has_servers(const Parallel& parallel);
/// True with parameter_averaging: no gradients are reduced between replicas.
bool averages_parameters(const Parallel& parallel);
/// True if the pipeline's schedule updates the weights after every backward: no gradients are accumulated.
bool updates_every_backward(const Parallel& parallel);
/// Steps of a period in which a part of the model travels between replicas, all the same amount.
std::int64_t averaging_steps(const Parallel& parallel);
/// Does the exchange work on copies, beside the parameters that go on changing?
inline bool exchanges_copies(const Parallel& parallel) {
  return parallel.outer_optimizer != OuterOptimizer::none || parallel.averaging_overlap > 0;
}

/// Source: docs/references.md#fsdp-pipelines
inline bool stays_gathered_in_pipeline(const Parallel& parallel) {
  return parallel.torch_pipelining && parallel.pp > 1 && rules_of(parallel).waits_for_last;
}

/// FSDP and ZeRO-3 reduce the gradients of every micro-batch, unless they are told to wait for the last one of several; ZeRO-2 too,
/// unless a pipeline makes that ruinous: then gradients are accumulated whole (Llama 3, arXiv 2407.21783, 3.3.2) and reduced once in
/// a step.   Source: docs/references.md#fsdp-accumulation
inline bool reduces_every_microbatch(const Parallel& parallel, int microbatches) {
  const bool defers = parallel.defer_grad_sync && rules_of(parallel).waits_for_last;
  const bool waits = (defers && microbatches > 1) || stays_gathered_in_pipeline(parallel);
  return (parallel.zero_stage >= 3 && !waits) || (parallel.zero_stage == 2 && parallel.pp == 1);
}

/// True if gradients are reduced unit by unit, as FSDP does; DeepSpeed's stage 3 fills buckets.
inline bool reduces_units(const Parallel& parallel) { return rules_of(parallel).reduces_units; }

/// True if FSDP gathers and reduces all that no layer holds, embedding and output layer, as one unit.
/// Source: docs/references.md#fsdp-root
inline bool root_is_one_unit(const Parallel& parallel) {
  const bool joint = parallel.joint_root || parallel.reshard_root;
  return reduces_units(parallel) && (rules_of(parallel).joint_root || joint);
}

/// True if multiplications for weight gradients add to fp32 ones. FSDP's write 16 bits, which it copies into what it reduces.
bool multiplication_adds(const Parallel& parallel, const Training& training);

/// With zero_stage 3: true if a unit is gathered in the forward of every micro-batch, not only in that of the first, which only FSDP
/// can do. FSDP1 frees nothing in a backward that does not reduce, unless it frees after the forward, too. The last backward frees all.
/// Source: docs/references.md#fsdp-accumulation
inline bool gathers_every_forward(const Parallel& parallel, int microbatches) {
  if (!reduces_units(parallel)) return true;
  if (stays_gathered_in_pipeline(parallel)) return false;
  if (microbatches <= 1) return true;
  const bool keeps = rules_of(parallel).keeps_unreduced && parallel.defer_grad_sync && !parallel.reshard_after_forward;
  return parallel.reshard_after_backward && !keeps;
}

/// DeepSpeed without overlap_comm reduces on the stream that computes: each bucket of every micro-batch blocks it.
/// Source: docs/references.md#deepspeed-reduction
inline bool reduction_blocks(const Parallel& parallel) {
  return rules_of(parallel).reduces_on_compute && reduces_every_microbatch(parallel, 1) &&
         !parallel.overlap_grad_reduce;
}

/// True if the passes of an overlapped pair take turns layer by layer: only with exchanges of expert-parallel tokens, and
/// not with ZeRO-3, whose gathers are ordered per pass.
inline bool interleaves_pairs(const Parallel& parallel) { return parallel.ep > 1 && parallel.zero_stage < 3; }

/// Faults: parameters or optimizer states that cannot wait on the host.
void check_offloading(PlanCheck& check, const Parallel& parallel, const Training& training);

/// True if parallel.ddp_bucket_size is a key of this kind of data parallelism; fsdp1 has its buckets below stage 3.
bool takes_ddp_bucket_size(const Parallel& parallel);

/// Faults: keys of one kind of data parallelism beside another; parameter servers for a model that is divided.
void check_data_parallel(PlanCheck& check, const Parallel& parallel);

/// Sets zero_stage, reshard_after_forward and shard_group as the strategy says. Faults: a zero_stage, shard_group or
/// reshard_after_forward beside it that says otherwise; hybrid sharding without a group.
void apply_strategy(PlanCheck& check, Parallel& parallel);

/// Faults: unknown zero_stage; a shard_group that does not divide dp x cp or has nothing to shard; a number in
/// reshard_after_forward that does not divide the shard group or is not smaller.   Requires dp filled in.
void check_sharding(PlanCheck& check, const Parallel& parallel);

/// DeepSpeed's sizes in elements, with its defaults: of a bucket of gradients, of one of gathered parameters, of what stage 3 gathers
/// ahead, and of the smallest tensor that stage 3 divides.   Source: docs/references.md#fsdp-variants
std::int64_t deepspeed_bucket(const Parallel& parallel);
std::int64_t deepspeed_gather(const Parallel& parallel);
std::int64_t deepspeed_prefetch(const Parallel& parallel);
std::int64_t deepspeed_persistence(const Parallel& parallel);

/// A bucket of gradients with its default: of PyTorch's DDP in MiB, except the first one; of Megatron-LM in elements.
std::int64_t ddp_bucket_mib(const Parallel& parallel);
std::int64_t megatron_bucket(const Parallel& parallel);

/// The shard_group of HYBRID_SHARD that names none: the data-parallel GPUs of one host. 0: another strategy, or a host has fewer GPUs
/// than tp.
int shard_group_of_host(const Parallel& parallel, int gpus_per_host, int world_size);

}  // namespace tracecast
