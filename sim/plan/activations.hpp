/// Bytes of activations per token, before they are multiplied by the tokens of a micro-batch.
///
/// Everything is counted in doubles: exact below 2^53, and unable to overflow.   Source: DOMAIN.md 2.3, memory.hpp
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

/// Cheap work whose result need not be kept (`recompute_modules`; Megatron-LM's --recompute-modules layernorm, mlp and
/// moe_act, mla_up_proj).
///
///   norm        results of the norms over the hidden state and the latent vectors: 2h each
///   activation  what the activation function hands to the second matrix: 2f
///   mla_up      queries, keys and values of latent attention: only their latent vectors are kept
/// Source: DeepSeek-V3 (arXiv 2412.19437) 3.2.3 and 3.3.3, all three; LLaMA (arXiv 2302.13971) 2.4, whose backward is
/// written by hand so that only results of linear layers are kept
enum class RecomputeModule { norm, activation, mla_up };
std::vector<std::string> recompute_module_names();
bool repeats(const Training& training, RecomputeModule module);
/// Faults: unknown names.
void check_recompute_modules(PlanCheck& check, const Training& training);

/// Tensors that wait for the backward in fewer than 16 bits (`narrow_activations`), where their linear layer is narrow.
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
std::vector<std::string> narrow_activation_names();
/// Faults: unknown names; a dtype of 16 bits or more.
void check_narrow_activations(PlanCheck& check, const Training& training);

/// What a layer's forward keeps under `recompute` (with the plan's recompute_modules under none and selective). With
/// tp_split gather every tensor rank keeps the whole of what it gathers: results of attention and of the feed-forward's
/// first matrix and its activation function.
TokenBytes layer_activations(const Model& model, const Plan& plan, int layer, Recompute recompute);
/// Inputs and output gradients of the layer's weights: what its weight-gradient pass needs.
TokenBytes layer_weight_gradient_inputs(const Model& model, const Plan& plan, int layer);

/// Is this layer recomputed in full? The first recompute_num_layers of every virtual stage are, or all.
bool is_recomputed(const Plan& plan, int layer);

/// Dropout mask of the embedding.
TokenBytes embedding_activations(const Model& model);
/// Input of the final norm and of the output layer, and fp32 logits; the same for every multi-token-prediction layer,
/// with that layer's own.
TokenBytes head_activations(const Model& model, const Plan& plan);
TokenBytes head_weight_gradient_inputs(const Model& model, const Plan& plan);
/// What the loss works with beside the fp32 logits: the logits as the output layer writes them, and with PyTorch's own
/// cross_entropy the log-probabilities and their gradient, fp32 each. Megatron-LM's vocabulary-parallel loss works in
/// place. Which one a run has follows from its sharding: zero_stage 2 and 3 are FSDP and DeepSpeed, with PyTorch's.
/// Without these the torchtitan rows of data/validation/runs.csv come out 20 to 40 % too small.
TokenBytes loss_workspace(const Model& model, const Plan& plan);

}  // namespace tracecast
