/// \file
/// Training of a part of the parameters: low-rank adapters beside frozen matrices, and frozen first layers.
///
/// LoRA (training.lora_rank = r): every parameter of the model is frozen; each target matrix W [out, in] gets adapters
/// A [r, in] and B [out, r], y = W x + B (A x). A frozen matrix still passes gradients to its input, but has no weight
/// gradient, no gradient memory and no optimizer state.
///
///   target   matrices                                            adapters of one rank, t = tp
///   qkv      query, key and value projections (latent: all)      r in + r out/t      (A on every rank, B split)
///   proj     output projection of the attention                  r in/t + r out      (A split, B on every rank)
///   fc1      up (and gate) of dense and shared feed-forwards     as qkv
///   fc2      down of the same                                    as proj
///
/// The row-parallel B multiplies partial sums, which the layer's own reduction adds up, so adapters move nothing over the
/// tensor ranks. Routed experts and the router have no adapters.
/// frozen_fraction: the first floor(fraction x layers) layers and the embedding are frozen; no gradient is needed below the
/// first trained layer, so their backward is empty and they keep no activations.
/// A frozen matrix keeps its input for the backward only if an adapter reads it (activations.cpp).
/// Left out: the reduction of replicated adapters' gradients over tensor ranks (r x h elements); 4-bit base weights (QLoRA).
/// Source: Hu et al., LoRA (arXiv 2106.09685); docs/references.md#hu-2021, docs/references.md#bytes-per-parameter
#pragma once

#include <cstdint>
#include <string>

#include "sim/model/model.hpp"
#include "sim/plan/packing.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

/// Matrices that training.lora_targets may name; none given means all of them.
enum class LoraTarget { qkv, proj, fc1, fc2 };
template <>
struct EnumNames<LoraTarget> {
  static constexpr NamedValue<LoraTarget> table[] = {
      {LoraTarget::qkv, "qkv"}, {LoraTarget::proj, "proj"}, {LoraTarget::fc1, "fc1"}, {LoraTarget::fc2, "fc2"}};
};
/// `target` is the name of a matrix, which need not be one that can have an adapter.
bool has_adapter(const Training& training, const std::string& target);

/// Layers at the start of the model that are frozen by frozen_fraction.
int frozen_layers(const Model& model, const Training& training);
/// Is anything of layer `layer` trained (its adapters count)?
bool trains_layer(const Model& model, const Training& training, int layer);
/// Are the layer's own matrices and norms trained? Layer -1: the output layer and the final norm.
bool trains_weights(const Model& model, const Training& training, int layer);
bool trains_embedding(const Training& training);
/// Is the matrix of the output layer trained? With tied embeddings it is the embedding's.
bool trains_output(const Model& model, const Training& training);

/// Adapters of layer `layer` on one of `tp` tensor ranks; with tp 1 the whole layer's. Multi-token-prediction layers follow
/// the others.
std::int64_t adapter_parameters(const Model& model, const Training& training, int layer, int tp);
/// Of the whole model: adapters, or the parameters that are not frozen.
std::int64_t adapter_parameters(const Model& model, const Training& training);
std::int64_t trainable_parameters(const Model& model, const Training& training);

/// Model FLOPs of one token, forward and backward: model_flops_per_token without what frozen parameters save (weight
/// gradients; whole backwards of frozen first layers) and what the output layer does not compute (loss_mask_fraction), and with the
/// adapters' 6 per parameter. About 4N for LoRA.
double training_flops_per_token(const Model& model, const Training& training, FlopsConvention convention);
/// Of these, those of the routed experts.
double expert_flops_per_token(const Model& model, const Training& training);
/// The mean over documents and padding of packed sequences; padding counts as documents of one token.
double packed_flops_per_token(const Model& model, const Training& training, const PackedSteps& packed,
                              FlopsConvention convention);

}  // namespace tracecast
