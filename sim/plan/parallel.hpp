/// \file
/// What the user decides: the parallel layout and the training settings of a run. The names are the keys of a
/// scenario file (docs/formats/scenario.md), grouped as there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/model/operators.hpp"
#include "sim/plan/documents.hpp"

namespace tracecast {

/// Upper limit of a degree. It keeps products within 64 bits.
inline constexpr int kMaxDegree = 1 << 14;

/// PyTorch FSDP's names for what zero_stage, reshard_after_forward and shard_group say together; see sharding.hpp.
enum class ShardingStrategy { by_zero_stage, full_shard, shard_grad_op, no_shard, hybrid_shard, hybrid_shard_zero2 };
template <>
struct EnumNames<ShardingStrategy> {
  static constexpr NamedValue<ShardingStrategy> table[] = {
      {ShardingStrategy::by_zero_stage, "by_zero_stage"},
      {ShardingStrategy::full_shard, "FULL_SHARD"},
      {ShardingStrategy::shard_grad_op, "SHARD_GRAD_OP"},
      {ShardingStrategy::no_shard, "NO_SHARD"},
      {ShardingStrategy::hybrid_shard, "HYBRID_SHARD"},
      {ShardingStrategy::hybrid_shard_zero2, "_HYBRID_SHARD_ZERO2"}};
};

/// Which framework runs data parallelism: it decides the buckets and where parameters are updated.
enum class DataParallelKind {
  automatic,  ///< Megatron-LM's buckets; with zero_stage 3 the units of PyTorch's fully_shard (FSDP2)
  fsdp1,  ///< with zero_stage 3 the units of FullyShardedDataParallel, whose parameters are views of one tensor; else automatic
  ddp,                     ///< PyTorch DistributedDataParallel: buckets of bucket_cap_mb, the first of 1 MiB
  deepspeed,               ///< DeepSpeed: the bucket sizes below
  parameter_server,        ///< workers push gradients to servers, which update, and pull parameters, all together
  async_parameter_server,  ///< the same, each worker at its own pace
  /// Local SGD: every replica updates its own parameters, and every averaging_period steps all take the mean of them.
  /// A replica is one rank of dp, or with shard_group the ranks that share a copy, which reduce gradients in every step.
  parameter_averaging,
};
template <>
struct EnumNames<DataParallelKind> {
  static constexpr NamedValue<DataParallelKind> table[] = {
      {DataParallelKind::automatic, "automatic"},
      {DataParallelKind::fsdp1, "fsdp1"},
      {DataParallelKind::ddp, "ddp"},
      {DataParallelKind::deepspeed, "deepspeed"},
      {DataParallelKind::parameter_server, "parameter_server"},
      {DataParallelKind::async_parameter_server, "async_parameter_server"},
      {DataParallelKind::parameter_averaging, "parameter_averaging"}};
};

/// How replicas that train apart (parameter_averaging) become one model again.
enum class OuterOptimizer {
  none,      ///< the mean of their parameters replaces them (local SGD)
  nesterov,  ///< their mean change is the gradient of a second optimizer, SGD with Nesterov momentum (DiLoCo)
};
template <>
struct EnumNames<OuterOptimizer> {
  static constexpr NamedValue<OuterOptimizer> table[] = {{OuterOptimizer::none, "none"},
                                                         {OuterOptimizer::nesterov, "nesterov"}};
};

/// How tensor parallelism divides linear layers.
enum class TensorSplit {
  column_row,  ///< in pairs, by columns and then by rows, with one reduction for both (Megatron-LM)
  gather,      ///< every layer by columns; its result is gathered before the next one
};
template <>
struct EnumNames<TensorSplit> {
  static constexpr NamedValue<TensorSplit> table[] = {{TensorSplit::column_row, "column_row"},
                                                      {TensorSplit::gather, "gather"}};
};

/// How attention reaches the keys and values of other context-parallel ranks: in a ring, gathered, or by exchanging heads.
enum class ContextExchange { p2p, all_gather, a2a };
template <>
struct EnumNames<ContextExchange> {
  static constexpr NamedValue<ContextExchange> table[] = {
      {ContextExchange::p2p, "p2p"}, {ContextExchange::all_gather, "all_gather"}, {ContextExchange::a2a, "a2a"}};
};

/// How tokens reach their experts.
enum class MoeDispatcher {
  alltoall,  ///< a copy per expert (Megatron-LM's and torchtitan's default)
  deepep,    ///< a copy per node, forwarded inside it (DeepEP; the model's routing groups limit the nodes of a token)
  hybridep,  ///< the same with kernels for NVLink domains of any size (HybridEP)
};
template <>
struct EnumNames<MoeDispatcher> {
  static constexpr NamedValue<MoeDispatcher> table[] = {
      {MoeDispatcher::alltoall, "alltoall"}, {MoeDispatcher::deepep, "deepep"}, {MoeDispatcher::hybridep, "hybridep"}};
};

/// A part of a layer that one CUDA graph launches, with Megatron-Core's names.
enum class GraphModule {
  attn,        ///< attention or a delta net, with its norm and residual
  mamba,       ///< the same of Mamba-2
  mlp,         ///< the same of a dense feed-forward
  moe_router,  ///< norm, router and shared experts
};
template <>
struct EnumNames<GraphModule> {
  static constexpr NamedValue<GraphModule> table[] = {{GraphModule::attn, "attn"},
                                                      {GraphModule::mamba, "mamba"},
                                                      {GraphModule::mlp, "mlp"},
                                                      {GraphModule::moe_router, "moe_router"}};
};

/// Which experts the tokens of a layer choose.
enum class ExpertRouting {
  even,     ///< every expert gets as many (forced balancing, as published runs often measure)
  uniform,  ///< every token chooses at random, all experts equally likely
  skewed,   ///< some experts are chosen more often, as by a learned router
};
template <>
struct EnumNames<ExpertRouting> {
  static constexpr NamedValue<ExpertRouting> table[] = {
      {ExpertRouting::even, "even"}, {ExpertRouting::uniform, "uniform"}, {ExpertRouting::skewed, "skewed"}};
};

/// Which experts are on one rank.
enum class ExpertPlacement {
  contiguous,  ///< consecutive experts, as frameworks number them
  rebalanced,  ///< as many on every rank, those chosen most often apart
};
template <>
struct EnumNames<ExpertPlacement> {
  static constexpr NamedValue<ExpertPlacement> table[] = {{ExpertPlacement::contiguous, "contiguous"},
                                                          {ExpertPlacement::rebalanced, "rebalanced"}};
};

/// The schedule of a pipeline that names none: Megatron-LM's.
constexpr const char* default_schedule(int vpp) { return vpp > 1 ? "interleaved-1f1b" : "1f1b"; }

struct Parallel {
  int tp = 1;
  int pp = 1;
  int dp = 0;  ///< 0: derived, world_size / (tp pp cp)
  int cp = 1;
  int ep = 1;
  int etp = 0;  ///< tensor degree of the experts; 0: tp
  int vpp = 1;  ///< model chunks per pipeline rank
  bool sequence_parallel = false;
  int zero_stage = 0;   ///< 0 none, 1 optimizer states, 2 and gradients, 3 and parameters
  int shard_group = 0;  ///< hybrid sharding: ranks that share one copy; 0: all of dp x cp
  ShardingStrategy sharding_strategy = ShardingStrategy::by_zero_stage;
  /// zero_stage 3: parameters are freed between forward and backward. With false (FSDP's SHARD_GRAD_OP) they stay.
  bool reshard_after_forward = true;
  /// FSDP2: a number instead of true. Parameters stay sharded over so many ranks between forward and backward; 0: all.
  int reshard_group = 0;
  /// reshard_after_forward of embedding and output layer, the root of FSDP, which keeps them by default.
  bool reshard_root = false;
  /// The root is one unit, gathered and reduced at one time, as with fsdp1 and reshard_root in any case (trainers that wrap layers and
  /// then the model). Else its two ends are two (torchtitan).
  bool joint_root = false;
  /// FSDP2: parameters are freed after the backward. With false they are gathered again only in the next step, or, if the forward
  /// frees them, in the backward.
  bool reshard_after_backward = true;
  /// zero_stage 3 but for DeepSpeed's: gradients of earlier micro-batches are added up whole, and reduced with the last one.
  bool defer_grad_sync = false;
  /// zero_stage 3 but for DeepSpeed's, in a pipeline: parameters stay gathered from the first forward to the last backward, with which
  /// gradients are reduced, as torch.distributed.pipelining does it, whatever the three keys above say.
  bool torch_pipelining = false;
  std::string pp_schedule = {};        ///< empty: default_schedule(vpp)
  std::vector<int> pp_layout = {};     ///< layers of each virtual stage, stage 0 first; empty: even
  bool account_for_embedding = false;  ///< embedding and loss count as a layer each when layers are cut evenly
  bool account_for_loss = false;
  std::string rank_order = "tp-cp-ep-dp-pp";  ///< fastest-varying first; any permutation
  bool overlap_grad_reduce = true;            ///< gradient buckets leave during the last backward
  bool overlap_param_gather = true;           ///< parameters arrive during the next forward
  /// With zero_stage 1 gradients are summed on every rank, not only where their optimizer states are (InternLM; DeepSpeed's
  /// BF16_Optimizer always does).
  bool zero1_allreduce = false;
  /// Parameters are gathered over a communicator of their own, beside the reduction of gradients (FSDP2's
  /// set_separate_reduce_scatter_group, Megatron-LM's --create-all-gather-group). Else both share one, as by default.
  bool separate_gather_group = false;
  /// zero_stage 3 but for DeepSpeed's: parameters are views of what was gathered, as fsdp1's always are, not copied out of it
  /// (Megatron-FSDP).
  bool gathers_in_place = false;
  bool overlap_p2p = true;  ///< sends and receives do not block the compute stream
  /// With overlap_p2p: so in the schedule 1f1b. Megatron-LM overlaps only where stages are interleaved (docs/references.md#overlap-p2p).
  bool overlap_p2p_1f1b = true;
  bool scatter_gather_p2p = false;  ///< without sequence parallelism: each tensor rank sends 1/tp, the receivers gather
  /// Stages keep their outputs until the backward, each tensor rank a part (DeepSpeed's PipelineEngine); Megatron-LM frees them.
  bool keep_stage_outputs = false;
  TensorSplit tp_split = TensorSplit::column_row;
  /// Tensor parallelism is PyTorch's DTensor. With sequence_parallel a collective works along the first dimension, the
  /// batch, so that the whole tensor is copied once more; inputs are kept as they were gathered, not gathered again for
  /// weight gradients; no collective of the backward runs beside multiplications (docs/references.md#dtensor).
  bool dtensor = false;
  /// Without sequence parallelism: the gradients of a divided matrix's input are summed over the tensor ranks beside its
  /// weight gradient, else after it (Megatron-LM before 2022; docs/references.md#async-allreduce).
  bool tp_async_allreduce = true;
  /// Tiled overlap of GEMMs with tensor-parallel collectives (userbuffers, async TP); not of gathers whose result is quantised by
  /// rows (docs/references.md#narrow-gathers).
  bool tp_comm_overlap = false;
  std::int64_t ddp_bucket_size = 0;  ///< elements; 0: max(40e6, 1e6 dp cp) as in Megatron-LM
  DataParallelKind data_parallel = DataParallelKind::automatic;
  int bucket_cap_mb = 0;                         ///< ddp: MiB of gradients; 0: 25
  std::int64_t reduce_bucket_size = 0;           ///< deepspeed, in elements like the next ones; 0: 5e8
  std::int64_t allgather_bucket_size = 0;        ///< deepspeed, stages 1 and 2; 0: 5e8
  std::int64_t prefetch_bucket_size = 0;         ///< deepspeed, stage 3: gathered ahead; 0: 5e7
  std::int64_t param_persistence_threshold = 0;  ///< deepspeed, stage 3: smaller tensors stay whole; 0: 1e5
  int servers = 1;                               ///< parameter servers, each a host of the cluster's kind
  int averaging_period = 1;                      ///< parameter_averaging: steps; 0: replicas never meet
  int averaging_fragments =
      1;                      ///< parts of the model, each averaged once in a period, evenly spread (Streaming DiLoCo)
  int averaging_overlap = 0;  ///< steps beside which a part travels; 0: the step waits for it
  int averaging_bits = 0;     ///< of each parameter as it travels; 0: as the optimizer keeps it
  OuterOptimizer outer_optimizer = OuterOptimizer::none;
  ContextExchange cp_comm_type = ContextExchange::p2p;
  MoeDispatcher moe_dispatcher = MoeDispatcher::alltoall;
  int moe_chunks = 1;  ///< parts of a micro-batch; the exchange of one runs beside the experts' work on another
  bool moe_shared_overlap = false;  ///< shared experts run beside the exchange (Megatron's --moe-shared-expert-overlap)

  /// Ranks that hold the model once. 64 bits: of a layout that no plan has checked it may be large.
  std::int64_t model_ranks() const { return std::int64_t{tp} * cp * pp; }
  /// Ranks that divide each expert.
  int expert_tensor_ranks() const { return etp > 0 ? etp : tp; }
  /// Replicas on so many ranks, if dp is derived; at least 1, also of a layout that does not divide them.
  int replicas_on(int world_size) const {
    return static_cast<int>(std::max<std::int64_t>(1, world_size / std::max<std::int64_t>(1, model_ranks())));
  }
  bool operator==(const Parallel&) const = default;
};

inline bool is_1f1b(const Parallel& p) { return p.pp_schedule == "1f1b" || (p.pp_schedule.empty() && p.vpp == 1); }

/// True if pipeline messages run beside computation.
inline bool overlaps_messages(const Parallel& p) { return p.overlap_p2p && (p.overlap_p2p_1f1b || !is_1f1b(p)); }

enum class Recompute {
  none,
  selective,  ///< core attention only (Megatron-LM)
  selective_op,  ///< every second matrix multiplication and element-wise work, not attention (torchtitan's op-level option)
  full,
};
template <>
struct EnumNames<Recompute> {
  static constexpr NamedValue<Recompute> table[] = {{Recompute::none, "none"},
                                                    {Recompute::selective, "selective"},
                                                    {Recompute::selective_op, "selective_op"},
                                                    {Recompute::full, "full"}};
};

/// What each keeps and does is a row of optimizers.hpp.
enum class OptimizerKind { adam, sgd, momentum, lars, lamb, adam_8bit, muon, adafactor, shampoo, soap };
template <>
struct EnumNames<OptimizerKind> {
  static constexpr NamedValue<OptimizerKind> table[] = {
      {OptimizerKind::adam, "adam"},         {OptimizerKind::sgd, "sgd"},
      {OptimizerKind::momentum, "momentum"}, {OptimizerKind::lars, "lars"},
      {OptimizerKind::lamb, "lamb"},         {OptimizerKind::adam_8bit, "adam_8bit"},
      {OptimizerKind::muon, "muon"},         {OptimizerKind::adafactor, "adafactor"},
      {OptimizerKind::shampoo, "shampoo"},   {OptimizerKind::soap, "soap"}};
};

/// Which data-parallel rank works on which matrices of Muon, Shampoo and SOAP (optimizer_matrices.hpp).
enum class MatrixSharding {
  automatic,   ///< zero_stage 0: replicated, 1 and 2: layerwise, 3: all_to_all
  replicated,  ///< every rank all of its matrices
  gather_updates,  ///< zero_stage 0: distributed with their states; every rank gathers the updates of all (Distributed Shampoo)
  layerwise,   ///< every rank holds the states of whole matrices (Megatron-Core's layer-wise optimizer)
  gather,      ///< every rank gathers every matrix and works on all; Muon's states are divided by elements
  all_to_all,  ///< the same, but each matrix is sent to one rank, which sends the parts of the result back
};
template <>
struct EnumNames<MatrixSharding> {
  static constexpr NamedValue<MatrixSharding> table[] = {{MatrixSharding::automatic, "automatic"},
                                                         {MatrixSharding::replicated, "replicated"},
                                                         {MatrixSharding::gather_updates, "gather_updates"},
                                                         {MatrixSharding::layerwise, "layerwise"},
                                                         {MatrixSharding::gather, "gather"},
                                                         {MatrixSharding::all_to_all, "all_to_all"}};
};

/// What Muon does with matrices that tensor parallelism divides: Megatron-Core's --muon-tp-mode.
enum class MuonTensorMode {
  blockwise,    ///< every rank orthogonalises its part by itself
  duplicated,   ///< parts are gathered, every rank orthogonalises the whole matrix
  distributed,  ///< every rank keeps its part; products of a matrix with itself are summed over the ranks
};
template <>
struct EnumNames<MuonTensorMode> {
  static constexpr NamedValue<MuonTensorMode> table[] = {{MuonTensorMode::blockwise, "blockwise"},
                                                         {MuonTensorMode::duplicated, "duplicated"},
                                                         {MuonTensorMode::distributed, "distributed"}};
};

/// What the loss works in.
enum class CrossEntropy {
  automatic,  ///< with `compiled` compiled; pytorch with zero_stage 2 and 3 (FSDP, DeepSpeed) or dtensor; else vocab_parallel
  vocab_parallel,  ///< Megatron-LM's, in place in fp32
  fused_native,    ///< the same, compiled (Megatron-LM's --cross-entropy-loss-fusion)
  pytorch,         ///< cross_entropy: fp32 probabilities and gradients beside the logits
  compiled,        ///< PyTorch's by torch.compile, or XLA's: one kernel each way, 16-bit logits
  fused,           ///< one kernel, logits and gradient in 16 bit
};
template <>
struct EnumNames<CrossEntropy> {
  static constexpr NamedValue<CrossEntropy> table[] = {
      {CrossEntropy::automatic, "automatic"},       {CrossEntropy::vocab_parallel, "vocab_parallel"},
      {CrossEntropy::fused_native, "fused_native"}, {CrossEntropy::pytorch, "pytorch"},
      {CrossEntropy::compiled, "compiled"},         {CrossEntropy::fused, "fused"}};
};

/// Where an 8-bit tensor with one scale takes it from.
enum class Fp8Scaling {
  delayed,  ///< the largest values of earlier steps
  current,  ///< its own largest value, which a pass over the tensor finds first
};
template <>
struct EnumNames<Fp8Scaling> {
  static constexpr NamedValue<Fp8Scaling> table[] = {{Fp8Scaling::delayed, "delayed"},
                                                     {Fp8Scaling::current, "current"}};
};

struct Training {
  std::int64_t seq_length = 0;
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;
  Precision dtype = Precision::bf16;              ///< of the matrix multiplications
  Precision grad_reduce_dtype = Precision::fp32;  ///< of gradient accumulation and reduction
  /// With an 8- or 4-bit dtype: linear layers that stay in bf16, of "attention", "mlp" (dense and shared) and "experts".
  /// Embedding, router and norms always do, the output layer without fp8_output_layer, attention itself without
  /// fp8_attention (DeepSeek-V3 3.3, Transformer Engine).
  std::vector<std::string> bf16_modules = {};
  /// First and last layers whose linear layers all stay in bf16 (Megatron's --first-last-layers-bf16).
  int bf16_layers_start = 0;
  int bf16_layers_end = 0;
  bool fp8_param_gather = false;  ///< parameters are kept and gathered quantised, without a 16-bit copy
  Precision optimizer_state_dtype = Precision::fp32;  ///< of momentum and variance (bf16 in DeepSeek-V3)
  Precision moe_dispatch_dtype = Precision::bf16;     ///< of tokens sent to experts; they come back in bf16
  double expert_imbalance = 1;        ///< tokens of the fullest rank's experts over the mean; all ranks wait for it
  double expert_capacity_factor = 0;  ///< tokens above this multiple of the mean are dropped; 0: no limit
  /// Every expert is filled up to its capacity, so counts are known to the host (Megatron-Core: moe_pad_expert_input_to_capacity).
  bool expert_capacity_padding = false;
  ExpertRouting expert_routing = ExpertRouting::even;
  double expert_skew = 1.05;            ///< skewed: standard deviation of the logarithm of an expert's share
  std::vector<int> expert_tokens = {};  ///< measured: tokens of each expert of a layer; in place of a law
  ExpertPlacement expert_placement = ExpertPlacement::contiguous;
  int expert_placement_nodes = 1;  ///< experts of a routing group and their copies stay on one of so many nodes
  int redundant_experts = 0;       ///< copies of popular experts of a layer, besides one of each
  int expert_rebalance_steps = 0;  ///< steps from one placement by measured load to the next; 0: placed once
  int expert_drift_steps = 0;      ///< steps in which shares of experts forget 1 - 1/e of what they were; 0: they stay
  Recompute recompute = Recompute::none;
  int recompute_num_layers = 0;  ///< with full: layers per virtual stage that are recomputed; 0: all
  /// With full: the backward does not repeat a dense layer's last multiplication, nor what follows it, since it needs
  /// neither (PyTorch's non-reentrant checkpointing; docs/references.md#early-stop). Transformer Engine's layers keep
  /// their operands only after they ran, so they run again, and dropout's mask needs the result.
  bool recompute_early_stop = false;
  std::vector<std::string> recompute_modules = {};  ///< with none or selective (activations.hpp)
  /// Tensors that wait for the backward in fewer bits than 16: of "linear_inputs", "attention_output",
  /// "activation_inputs" (activations.hpp). Needs an 8- or 4-bit dtype.
  std::vector<std::string> low_precision_activations = {};
  bool flash_attention = true;
  std::string attention_kernel = {};  ///< of fused attention, as the profile names them; empty: the profile's first
  /// Fused attention multiplies in dtype, fp8 or mxfp8, in layers whose linear layers of attention do (Transformer Engine's
  /// fp8_dpa, Megatron's --fp8-dot-product-attention).
  bool fp8_attention = false;
  OptimizerKind optimizer = OptimizerKind::adam;
  MatrixSharding matrix_sharding = MatrixSharding::automatic;
  MuonTensorMode muon_tensor = MuonTensorMode::blockwise;
  int muon_steps = 5;               ///< Newton-Schulz iterations of one update
  int preconditioner_block = 0;     ///< longest side of a preconditioner; 0: the optimizer's default
  int preconditioner_interval = 0;  ///< steps from one factorisation of the preconditioners to the next; 0: its default
  bool master_weights = true;       ///< fp32 copy of 16-bit parameters in the optimizer
  bool offload_optimizer = false;   ///< optimizer states and the update are on the host (ZeRO-Offload)
  bool offload_parameters = false;  ///< zero_stage 3 with offload_optimizer: shards wait on the host (ZeRO-Infinity)
  bool offload_activations = false;  ///< those of layers wait on the host from the forward to the backward
  int offload_layers = 0;    ///< with offload_activations: so many of the first layers of a virtual stage; 0: all
  bool cuda_graphs = false;  ///< no launch cost per operator
  /// Without cuda_graphs: parts of layers of which each is launched by one graph (GraphModule). Everything else is eager.
  std::vector<std::string> cuda_graph_modules = {};
  bool compiled = false;  ///< element-wise chains are fused (torch.compile, XLA)
  /// Layers are Transformer Engine's: one kernel for a norm in each direction, sums at the residual of their own. compiled and
  /// unfused_elementwise, in this order, take precedence.
  bool transformer_engine = false;
  /// RMSNorm, RoPE and gated activations run as chains of framework operators with fp32 in between (PyTorch without
  /// torch.compile), not as one kernel each.
  bool unfused_elementwise = false;
  /// With unfused_elementwise: RMSNorm is one kernel nevertheless, as nn.RMSNorm is in PyTorch 2.11 (docs/validation/gpu.md).
  bool fused_norms = false;
  bool fused_rope = false;  ///< with unfused_elementwise: RoPE is one kernel nevertheless (FlashAttention's)
  /// The output layer multiplies in dtype where that has 8 or 4 bits (Megatron-LM's fp8_output_proj), else in bf16.
  bool fp8_output_layer = false;
  /// Tokens of 8- or 4-bit experts without a capacity are copied so that each expert has a multiple of 16 or 32, and back
  /// (Megatron-Core, where neither dispatcher nor router pads; docs/references.md#expert-padding).
  bool padded_experts = false;
  /// Inputs of 8- or 4-bit experts are quantised expert by expert (Transformer Engine until 2026; docs/references.md#expert-casts).
  bool separate_expert_casts = false;
  /// Multiplications of 8-bit experts apply and quantise the gated activation, forward and backward (Transformer Engine's
  /// grouped MLP).
  bool fused_experts = false;
  /// Multiplications leave the SMs free that data- and context-parallel collectives take, and lose nothing besides (Transformer
  /// Engine's NVTE_EXT_MARGIN_SM, PyTorch's SM carveout; engine/gpu_sharing.hpp).
  bool sm_margin = false;
  /// With fp8: one scale for each row or column of an operand, not one for the tensor (torchao's recipe "rowwise").
  bool row_scales = false;
  Fp8Scaling fp8_scaling = Fp8Scaling::delayed;
  /// With fp8: tensors are quantised transposed, too, since multiplications read both operands along the dimension that they sum over.
  /// Blackwell's need no such copy (docs/references.md#te-gemms).
  bool fp8_transpose = true;
  double loss_mask_fraction =
      1;  ///< part of the positions that have a label: the others are left out before the output layer
  CrossEntropy cross_entropy = CrossEntropy::automatic;
  /// Metrics of a step that take the loss of all logits once more and are gathered at its end (docs/references.md#train-metrics).
  int metric_losses = 0;
  /// 16-bit gradients stay beside the fp32 ones that they are added to after each micro-batch (DeepSpeed's BF16_Optimizer;
  /// adds_gradients_apart). Where the multiplication adds to the fp32 ones itself (Megatron-LM's gradient accumulation
  /// fusion) there are none.
  bool keep_16bit_gradients = false;
  bool score_buffer = false;  ///< unfused attention writes scores into one buffer that is never freed (Megatron-LM)
  double reserved_memory_gib = 0;              ///< GPU memory not owned by any tensor, above context and communicators
  int lora_rank = 0;                           ///< of adapters beside frozen matrices (fine_tuning.hpp); 0: none
  std::vector<std::string> lora_targets = {};  ///< of "qkv", "proj", "fc1", "fc2"; empty: all
  double frozen_fraction = 0;                  ///< first part of the layers, and the embedding, that is not trained
  std::int64_t train_tokens = 0;               ///< for 'days to train'; 0: not asked
  std::int64_t dataset_samples = 0;  ///< sequences of the data set; with epochs they are train_tokens; 0: none
  std::int64_t epochs = 1;           ///< passes over the data set
  /// Critical batch size: larger batches need more tokens in all (scaling.hpp). 0: batch size does not matter.
  std::int64_t critical_batch_tokens = 0;
  std::optional<Documents> documents = {};  ///< of which sequences are packed; none: a sequence is one document
  /// Eager PyTorch's chains of operators.
  bool runs_chains() const { return unfused_elementwise && !compiled; }
  bool operator==(const Training&) const = default;
};

}  // namespace tracecast
