/// \file
/// The architecture of a language model: what a model file says, before anything is decided about how it is run.
///
/// A plain value. Letters used in shapes throughout sim/: s sequence length, b micro-batch (sequences), h hidden,
/// a query heads, k key/value heads, d head size, f feed-forward width, V vocabulary, L layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/base/enum_names.hpp"
#include "sim/base/result.hpp"

namespace tracecast {

enum class Activation { gelu, relu, swiglu, geglu };
enum class Norm { layer_norm, rms_norm };
enum class Position { none, learned, rope, alibi };
template <>
struct EnumNames<Activation> {
  static constexpr NamedValue<Activation> table[] = {{Activation::gelu, "gelu"},
                                                     {Activation::relu, "relu"},
                                                     {Activation::swiglu, "swiglu"},
                                                     {Activation::geglu, "geglu"}};
};
template <>
struct EnumNames<Norm> {
  static constexpr NamedValue<Norm> table[] = {{Norm::layer_norm, "layer_norm"}, {Norm::rms_norm, "rms_norm"}};
};
template <>
struct EnumNames<Position> {
  static constexpr NamedValue<Position> table[] = {
      {Position::none, "none"}, {Position::learned, "learned"}, {Position::rope, "rope"}, {Position::alibi, "alibi"}};
};

/// Mixture of experts in the feed-forward part of a layer.
struct MixtureOfExperts {
  int experts = 0;
  int topk = 0;                        ///< experts that a token is sent to
  std::int64_t ffn_hidden = 0;         ///< width of one routed expert
  std::int64_t shared_ffn_hidden = 0;  ///< summed width of the shared experts, 0 for none
  bool shared_expert_gate = false;     ///< one extra hidden -> 1 projection (Qwen2-MoE)
  int leading_dense_layers = 0;        ///< layers at the start with a dense feed-forward of Model::ffn_hidden
  int layer_interval = 1;              ///< after those, every n-th layer is an MoE layer
  bool router_bias = false;            ///< one bias per expert (DeepSeek-V3, gpt-oss)
  bool expert_bias = false;            ///< biases inside the experts (gpt-oss)
  bool clamped_activation = false;     ///< inputs of the experts' activation are clamped (gpt-oss)
  int routing_groups = 0;              ///< node-limited routing: groups of experts, 0 for none
  int routing_group_limit = 0;         ///< groups a token may be sent to
  bool operator==(const MixtureOfExperts&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2/V3).
struct LatentAttention {
  std::int64_t q_rank = 0;  ///< 0: the query is not compressed
  std::int64_t kv_rank = 0;
  std::int64_t nope_dim = 0;  ///< head size without rotary position
  std::int64_t rope_dim = 0;  ///< head size with it
  std::int64_t v_dim = 0;
  bool operator==(const LatentAttention&) const = default;
};

/// What mixes the tokens of a layer.
enum class Mixer {
  none,             ///< the layer is a feed-forward alone
  attention,        ///< softmax attention, latent or not
  mamba2,           ///< Dao & Gu 2024
  gated_delta_net,  ///< Yang et al. 2024
  kimi_delta,       ///< Kimi Team 2025: a decay of its own for every channel of the keys
};

/// Layers of mamba2, gated_delta_net or kimi_delta: every head has a state of key_dim x head_dim, which each token updates.
/// Between their two projections, queries, keys and values pass a causal convolution, and the result a norm with a gate.
struct LinearAttention {
  int heads = 0;              ///< of the values, and of the states
  std::int64_t head_dim = 0;  ///< of the values
  int key_heads = 0;          ///< of queries and keys (Mamba-2: groups), 0: as many as heads
  std::int64_t key_dim = 0;   ///< head size of queries and keys (Mamba-2: state size), 0: head_dim
  int conv_kernel = 4;        ///< tokens that the convolution sees
  int chunk_size = 64;        ///< tokens that the kernels multiply at once
  std::int64_t keys() const { return key_heads * key_dim; }
  std::int64_t values() const { return heads * head_dim; }
  bool operator==(const LinearAttention&) const = default;
};

/// DeepSeek sparse attention: an indexer scores all keys before a query with small heads, and latent attention reads the best.
struct SparseAttention {
  int topk = 0;         ///< keys of a query
  int index_heads = 0;  ///< of the indexer's queries; its keys have one
  std::int64_t index_dim = 0;
  bool operator==(const SparseAttention&) const = default;
};

struct Model {
  std::string name = {};
  /// One letter per layer, repeated until num_layers: * attention, M Mamba-2, G gated delta net, K Kimi delta attention,
  /// - a dense feed-forward, E experts. With - or E every layer is what its letter says and nothing else; without, every
  /// layer has a feed-forward too. "": attention everywhere.
  std::string layer_pattern = {};
  int num_layers = 0;
  std::int64_t hidden_size = 0;
  int num_attention_heads = 0;
  int num_query_groups = 0;  ///< key/value heads; equal to num_attention_heads for multi-head attention
  std::int64_t head_dim = 0;
  std::int64_t ffn_hidden_size = 0;          ///< of the dense layers
  std::int64_t vocab_size = 0;               ///< as padded, if it is
  std::int64_t max_position_embeddings = 0;  ///< rows of the learned position table; not counted otherwise
  Activation activation = Activation::swiglu;
  Norm norm = Norm::rms_norm;
  Position position = Position::rope;
  bool tied_embeddings = false;  ///< input embedding and output layer share one matrix
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool norm_bias = false;       ///< LayerNorm with bias
  bool qk_norm = false;         ///< norms over the head size of query and key (Qwen3)
  bool embedding_norm = false;  ///< a norm after the embedding (BLOOM)
  bool final_norm = true;
  bool attention_sinks = false;        ///< one learned logit per head (gpt-oss)
  bool yarn = false;                   ///< rotary positions of YaRN, which also scale queries and keys (gpt-oss)
  bool attention_output_gate = false;  ///< the result of attention is gated by the layer's input (Qwen3-Next)
  bool parallel_residual = false;      ///< attention and MLP read the same input (GPT-NeoX)
  double dropout = 0;                  ///< hidden and attention dropout during training
  std::int64_t sliding_window = 0;     ///< attention span, 0 for all; applied to every layer that is not global
  bool chunked_attention = false;  ///< sliding_window is the length of chunks; a token attends to those of its chunk
  int global_layer_interval = 0;   ///< with sliding_window: every n-th layer attends globally; 0: none does
  int encoder_layers = 0;          ///< encoder-decoder models: num_layers counts the decoder's
  int mtp_layers = 0;              ///< multi-token-prediction layers, not counted in num_layers
  std::optional<LatentAttention> latent_attention = {};
  std::optional<LinearAttention> linear_attention = {};
  std::optional<SparseAttention> sparse_attention = {};  ///< with latent_attention, in every layer of attention
  std::optional<MixtureOfExperts> moe = {};
  bool operator==(const Model&) const = default;

  bool gated() const { return activation == Activation::swiglu || activation == Activation::geglu; }
  /// All layers, an encoder's first: the numbers that `layer` runs over here and in Stage.
  int layers() const { return encoder_layers + num_layers; }
  /// The layer whose kind a layer has: itself. Prediction layers, which follow all others, are as the last of these.
  int as_layer(int layer) const;
  /// The letter of a layer in layer_pattern; of prediction layers and both ends (layer -1) that of the last layer.
  char letter(int layer) const;
  Mixer mixer(int layer) const;
  /// True for layers of mamba2, gated_delta_net or kimi_delta.
  bool mixes_linearly(int layer) const;
  bool has_feed_forward(int layer) const;
  bool is_moe_layer(int layer) const;
  /// True if layers are one block each, a mixer or a feed-forward.
  bool single_blocks() const { return layer_pattern.find_first_of("-E") != std::string::npos; }
  /// Sliding window of a layer, 0 where it attends to everything. Both ends of the model (layer -1) have none.
  std::int64_t window(int layer) const;
};

/// Parameters of one part of the model, all ranks together.
struct ParameterCount {
  std::int64_t embedding = 0;  ///< word and learned position embeddings, embedding norm
  std::int64_t attention = 0;  ///< all layers
  std::int64_t mlp = 0;        ///< dense MLPs, shared experts, all layers
  std::int64_t router = 0;
  std::int64_t experts = 0;  ///< routed experts, all of them
  std::int64_t norms = 0;    ///< layer norms, qk norms, final norm
  std::int64_t output = 0;   ///< output layer, 0 when tied
  std::int64_t mtp = 0;
  std::int64_t total() const { return embedding + attention + mlp + router + experts + norms + output + mtp; }
};

/// Exact count, equal to the published one; multi-token-prediction layers are counted apart, in `mtp`, which is
/// part of the total only when model.mtp_layers > 0 was asked for. The norms inside latent attention count as norms.
/// Source: docs/references.md#parameter-counts
ParameterCount parameter_count(const Model& model);

/// Parameters that one token passes through: with experts, topk of them.
std::int64_t active_parameters(const Model& model);

/// Parameters of layer `layer` (0-based) alone, norms included.
std::int64_t layer_parameters(const Model& model, int layer);

/// Fills what follows from the rest where it is 0: num_query_groups (as many as heads), head_dim (hidden_size / heads).
/// Errors (all found, keys below "model."): a size that is missing, zero, negative or beyond what 64-bit counts hold;
/// heads not divisible by query groups; topk above experts; MoE together with an encoder; a layer_pattern with unknown
/// letters, with several kinds of linear attention or without the sizes that its letters need …
Result<Model> validated(Model model);

/// How model FLOPs are counted. Every report names the one it used.
enum class FlopsConvention {
  model_full_attn,  ///< 3 x forward matrix multiplies, attention scores not halved for the causal mask (default)
  model_causal,     ///< the same with the scores halved
};
template <>
struct EnumNames<FlopsConvention> {
  static constexpr NamedValue<FlopsConvention> table[] = {{FlopsConvention::model_full_attn, "model_full_attn"},
                                                          {FlopsConvention::model_causal, "model_causal"}};
};

/// Model FLOPs of one token, forward and backward, without recomputation.
///   3 (L (2h(ad + 2kd) + 2adh + 4sad + 2ghf) + 2hV),  g = 3 matrices when gated, else 2; MoE: active experts,
///   router and shared expert. Recurrences count what Megatron-LM counts for a token, in both conventions alike: 7 N d a
///   with Mamba-2 (state size N, a heads of d), 8 N d a with a delta rule. Layers with a sliding window attend w keys, of at
///   most s (causal: w - w^2 / 2s, the mean of all queries, as Megatron-Bridge counts them). Sparse attention counts topk keys of each
///   query as a window, and the indexer's scores of all. Encoder-decoder: both sequences are seq_length long.
///   Source: docs/references.md#step-flops, docs/references.md#flops-conventions
double model_flops_per_token(const Model& model, std::int64_t seq_length, FlopsConvention convention);

/// Forward FLOPs of one token in one layer: of the matrices, and of query-key and score-value products or the recurrence.
/// With experts, the active ones.
struct LayerFlops {
  double linear = 0;
  double attention = 0;
};
LayerFlops layer_forward_flops(const Model& model, int layer, std::int64_t seq_length, FlopsConvention convention);
/// Of one layer of multi-token prediction, with its projection, without the output layer.
LayerFlops prediction_forward_flops(const Model& model, std::int64_t seq_length, FlopsConvention convention);

}  // namespace tracecast
