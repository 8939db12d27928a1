/// \file
/// The keys of a scenario's groups `parallel` and `training`, each named once, for both the reader and the writer.
#pragma once

#include "sim/io/field_limits.hpp"
#include "sim/io/json_document.hpp"
#include "sim/network/cluster.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

inline constexpr Range kDegree{1, 1'000'000};
inline constexpr Range kDegreeOrDerived{0, 1'000'000};  ///< 0: derived or the default
inline constexpr Range kRanks{1, 16'777'216};
inline constexpr Range kLength{1, 1'000'000'000};
inline constexpr Range kCount{0, 1'000'000'000'000'000};

inline Names<Precision> reduction_precision_names() {
  return {{"fp32", Precision::fp32}, {"fp16", Precision::fp16}, {"bf16", Precision::bf16}};
}
inline Names<Precision> optimizer_state_precision_names() {
  return {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}};
}
inline Names<Precision> dispatch_precision_names() { return {{"bf16", Precision::bf16}, {"fp8", Precision::fp8}}; }

/// `p` is a Parallel, const or not.
template <class Visitor, class P>
void visit_parallel(Visitor&& visit, P&& p) {
  visit("tp", p.tp, kDegree);
  visit("sequence_parallel", p.sequence_parallel);
  visit("tp_split", p.tp_split, named_values<TensorSplit>());
  visit("pp", p.pp, kDegree);
  visit("vpp", p.vpp, kDegree);
  visit("pp_schedule", p.pp_schedule);
  visit("pp_layout", p.pp_layout);
  visit("account_for_embedding", p.account_for_embedding);
  visit("account_for_loss", p.account_for_loss);
  visit("dp", p.dp, kDegreeOrDerived);
  visit("cp", p.cp, kDegree);
  visit("cp_comm_type", p.cp_comm_type, named_values<ContextExchange>());
  visit("ep", p.ep, kDegree);
  visit("etp", p.etp, kDegreeOrDerived);
  visit("zero_stage", p.zero_stage, Range{0, 3});
  visit("shard_group", p.shard_group, kDegreeOrDerived);
  visit("sharding_strategy", p.sharding_strategy, named_values<ShardingStrategy>());
  visit("reshard_after_forward", p.reshard_after_forward, p.reshard_group, kDegree);
  visit("reshard_root", p.reshard_root);
  visit("rank_order", p.rank_order);
  visit("overlap_grad_reduce", p.overlap_grad_reduce);
  visit("overlap_param_gather", p.overlap_param_gather);
  visit("separate_gather_group", p.separate_gather_group);
  visit("overlap_p2p", p.overlap_p2p);
  visit("scatter_gather_p2p", p.scatter_gather_p2p);
  visit("tp_comm_overlap", p.tp_comm_overlap);
  visit("ddp_bucket_size", p.ddp_bucket_size, kCount);
  visit("data_parallel", p.data_parallel, named_values<DataParallelKind>());
  visit("bucket_cap_mb", p.bucket_cap_mb, kDegreeOrDerived);
  visit("reduce_bucket_size", p.reduce_bucket_size, kCount);
  visit("allgather_bucket_size", p.allgather_bucket_size, kCount);
  visit("prefetch_bucket_size", p.prefetch_bucket_size, kCount);
  visit("param_persistence_threshold", p.param_persistence_threshold, kCount);
  visit("servers", p.servers, kDegree);
  visit("moe_dispatcher", p.moe_dispatcher, named_values<MoeDispatcher>());
  visit("moe_chunks", p.moe_chunks, kDegree);
  visit("moe_shared_overlap", p.moe_shared_overlap);
}

/// Keys of `training` under the names that they had in version 0.1, which are still read.
inline void accept_old_training_keys(ObjectReader& training) {
  training.accept_old_name("bf16_linears", "bf16_modules");
  training.accept_old_name("narrow_activations", "low_precision_activations");
  training.accept_old_name("gradients_16_bit_too", "keep_16bit_gradients");
  training.accept_old_name("memory_beside_gib", "reserved_memory_gib");
}

/// `t` is a Training, const or not.
template <class Visitor, class T>
void visit_training(Visitor&& visit, T&& t) {
  visit("seq_length", t.seq_length, kLength);
  visit("micro_batch_size", t.micro_batch_size, kLength);
  visit("global_batch_size", t.global_batch_size, kLength);
  visit("dtype", t.dtype, named_values<Precision>());
  visit("grad_reduce_dtype", t.grad_reduce_dtype, reduction_precision_names());
  visit("bf16_modules", t.bf16_modules);
  visit("bf16_layers_start", t.bf16_layers_start, kDegreeOrDerived);
  visit("bf16_layers_end", t.bf16_layers_end, kDegreeOrDerived);
  visit("fp8_param_gather", t.fp8_param_gather);
  visit("optimizer_state_dtype", t.optimizer_state_dtype, optimizer_state_precision_names());
  visit("moe_dispatch_dtype", t.moe_dispatch_dtype, dispatch_precision_names());
  visit("expert_imbalance", t.expert_imbalance);
  visit("expert_capacity_factor", t.expert_capacity_factor);
  visit("recompute", t.recompute, named_values<Recompute>());
  visit("recompute_num_layers", t.recompute_num_layers, kDegreeOrDerived);
  visit("recompute_modules", t.recompute_modules);
  visit("low_precision_activations", t.low_precision_activations);
  visit("flash_attention", t.flash_attention);
  visit("attention_kernel", t.attention_kernel);
  visit("optimizer", t.optimizer, named_values<OptimizerKind>());
  visit("master_weights", t.master_weights);
  visit("offload_optimizer", t.offload_optimizer);
  visit("offload_parameters", t.offload_parameters);
  visit("offload_activations", t.offload_activations);
  visit("cuda_graphs", t.cuda_graphs);
  visit("compiled", t.compiled);
  visit("unfused_elementwise", t.unfused_elementwise);
  visit("loss_mask_fraction", t.loss_mask_fraction);
  visit("cross_entropy", t.cross_entropy, named_values<CrossEntropy>());
  visit("keep_16bit_gradients", t.keep_16bit_gradients);
  visit("reserved_memory_gib", t.reserved_memory_gib);
  visit("lora_rank", t.lora_rank, kDegreeOrDerived);
  visit("lora_targets", t.lora_targets);
  visit("frozen_fraction", t.frozen_fraction);
  visit("train_tokens", t.train_tokens, kCount);
  visit("critical_batch_tokens", t.critical_batch_tokens, kCount);
}

}  // namespace tracecast
