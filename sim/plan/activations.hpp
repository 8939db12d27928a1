/// \file
/// Bytes of activations per token, before they are multiplied by the tokens of a micro-batch.
///
/// Everything is counted in doubles: exact below 2^53, and unable to overflow.
/// Source: docs/references.md#activation-bytes
#pragma once

#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/plan_check.hpp"

namespace tracecast {

/// Kept per token: `split` is divided by tp, `whole` only with sequence parallelism, `local` is per rank already.
struct TokenBytes {
  double split = 0;
  double whole = 0;
  double local = 0;
  TokenBytes& operator+=(const TokenBytes& other);
};

/// On one rank, for the tokens of one micro-batch.
double rank_bytes(const TokenBytes& bytes, const Plan& plan);

/// Work whose result need not be kept (`recompute_modules`; Megatron-LM's --recompute-modules layernorm, moe_act, mla_up_proj, mlp,
/// shared_experts, moe).
///
///   norm            results of the norms over the hidden state and the latent vectors: 2h each
///   activation      what the activation function hands to the second matrix: 2f
///   mla_up          queries, keys and values of latent attention: only their latent vectors are kept
///   mlp             the dense feed-forward of layers without experts: only its input is kept
///   shared_experts  the shared experts: only their input is kept
///   moe             all between a layer's second norm and its residual sum: router, exchanges and experts run again
/// Source: Megatron-Core's transformer_layer.py and moe_layer.py (mlp, shared_experts, moe); DeepSeek-V3 (arXiv 2412.19437) 3.2.3 and
/// 3.3.3 (norm, activation, mla_up); LLaMA (arXiv 2302.13971) 2.4, whose backward is written by hand so that only results of linear
/// layers are kept
enum class RecomputeModule { norm, activation, mla_up, mlp, shared_experts, moe };
template <>
struct EnumNames<RecomputeModule> {
  static constexpr NamedValue<RecomputeModule> table[] = {{RecomputeModule::norm, "norm"},
                                                          {RecomputeModule::activation, "activation"},
                                                          {RecomputeModule::mla_up, "mla_up"},
                                                          {RecomputeModule::mlp, "mlp"},
                                                          {RecomputeModule::shared_experts, "shared_experts"},
                                                          {RecomputeModule::moe, "moe"}};
};
bool repeats(const Training& training, RecomputeModule module);

/// Tensors that wait for the backward in fewer than 16 bits (`low_precision_activations`), where their linear layer is narrow.
///
///   linear_inputs      what linear layers read: as their multiplication takes it, with its scales; and the output gradients
///                      that wait for a weight-gradient pass. The result of attention is then there twice: for its
///                      own backward in 16 bit, and for the projection
///   attention_output   the result of attention once, for both, in 12 bits (E5M6)
///   activation_inputs  what the activation function reads: 8 bits and scales
/// What the router reads stays in 16 bit, and so does what norms read: the residual stream.
/// Source: DeepSeek-V3 (arXiv 2412.19437) 3.3.3, all three; linear_inputs alone is Transformer Engine's Linear, which saves
/// its quantised input; activation_inputs is Megatron-LM's --activation-func-fp8-input-store. torchao's Float8Linear saves
/// 16-bit inputs: none of them
enum class NarrowActivation { linear_inputs, attention_output, activation_inputs };
template <>
struct EnumNames<NarrowActivation> {
  static constexpr NamedValue<NarrowActivation> table[] = {{NarrowActivation::linear_inputs, "linear_inputs"},
                                                           {NarrowActivation::attention_output, "attention_output"},
                                                           {NarrowActivation::activation_inputs, "activation_inputs"}};
};
/// Faults: unknown names; a dtype of 16 bits or more.
void check_low_precision_activations(PlanCheck& check, const Training& training);

/// What a layer's forward keeps under `recompute` (with the plan's recompute_modules under none and selective). With
/// tp_split gather every tensor rank keeps the whole of what it gathers: results of attention and of the feed-forward's
/// first matrix and its activation function.
TokenBytes layer_activations(const Model& model, const Plan& plan, int layer, Recompute recompute);
/// Inputs and output gradients of the layer's weights: what its weight-gradient pass needs.
TokenBytes layer_weight_gradient_inputs(const Model& model, const Plan& plan, int layer);

/// Is this layer recomputed in full? The first recompute_num_layers of every virtual stage are, or all.
bool is_recomputed(const Plan& plan, int layer);

/// What the loss works in; never automatic.
CrossEntropy loss_of(const Parallel& parallel, const Training& training);

/// Dropout mask of the embedding.
TokenBytes embedding_activations(const Model& model);
/// Input of the final norm and of the output layer, and what the loss keeps of the logits: fp32 exponentials or
/// log-probabilities, of a fused or compiled loss the 16-bit logits; the same for every multi-token-prediction layer, with
/// that layer's own.
TokenBytes head_activations(const Model& model, const Plan& plan);
TokenBytes head_weight_gradient_inputs(const Model& model, const Plan& plan);
/// What the loss works with beside what it keeps, per logit (Training::cross_entropy):
///
///   vocab_parallel, fused_native
///                   the gradient, as the output layer reads it                                                      2
///   pytorch         fp32 gradients of the negative log-likelihood and of the log-softmax                            8
///     with tp > 1   and the exponential that PyTorch's loss_parallel writes beside them                            12
///   compiled        the gradient                                                                                    2
///   fused           the gradient                                                                                    2
///     with transformer_engine it is written over the logits                                                         0
///
/// Source: Megatron-LM's cross_entropy.py; docs/references.md#loss-fusion; PyTorch's derivatives of nll_loss and _log_softmax,
/// and loss.py of its tensor parallelism; flash_attn's CrossEntropyLoss (llm-foundry's default). Without them the torchtitan rows of
/// scenarios/runs/published.csv come out 20 to 40 % too small, and with PyTorch's 28 rows of llm-foundry would not fit.
TokenBytes loss_workspace(const Model& model, const Plan& plan);

/// What a stage hands to the next one, as DeepSpeed's pipeline engine keeps it until the backward: each tensor rank a part.
/// Source: docs/references.md#stage-outputs
TokenBytes stage_output(const Model& model, const Plan& plan);

/// Megatron-LM's buffer for the scores of one layer; nothing with flash attention.   Source: docs/references.md#score-buffer
TokenBytes score_buffer(const Model& model, const Plan& plan);

/// With sequence parallelism, what tensor ranks hold whole while a layer works: a gathered tensor, and the sums that are
/// still to be scattered. Where collectives run in pieces inside the multiplications (tp_comm_overlap), neither is there; with
/// row_scales the gathered tensor is.
/// With parallel.dtensor the gathered inputs of attention and feed-forward, too, unless they wait since the forward
/// (layer_activations): DTensor keeps what it multiplied, Megatron-LM gathers it again.
/// The two torchtitan rows of 70B, without and with asynchronous tensor parallelism, differ by 4.3 GiB; this says 4.0.
TokenBytes gathered_workspace(const Model& model, const Plan& plan);

/// With cp_comm_type all_gather, what attention holds of the whole sequence in a layer's backward: keys, values and the gradients of
/// both, of sparse attention the latent vectors, the indexer's keys and theirs. Forward it is half of that.
/// Source: docs/references.md#gathered-keys
TokenBytes gathered_keys(const Model& model, const Plan& plan);

/// Transformer Engine's ring (cp_comm_type p2p), in a forward of attention on the last rank: a buffer for keys and values of each
/// step, and the result of each until all are added up.   Source: docs/references.md#gathered-keys
TokenBytes ring_buffers(const Model& model, const Plan& plan);

}  // namespace tracecast
