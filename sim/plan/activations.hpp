/// Bytes of activations per token, before they are multiplied by the tokens of a micro-batch.
///
/// Everything is counted in doubles: exact below 2^53, and unable to overflow.   Source: DOMAIN.md 2.3, memory.hpp
#pragma once

#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"

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

/// What a layer's forward keeps under `recompute`, whatever the plan says.
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
