#include "sim/model/parameters.hpp"

namespace tracecast {
namespace {

using Groups = std::vector<ParameterGroup>;

struct Matrix {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::int64_t pieces = 1;
  bool row_parallel = false;
};

void matrix(Groups& groups, Part part, Split split, const Matrix& m) {
  const std::int64_t count = m.inputs * m.outputs * m.pieces;
  if (count > 0) groups.push_back({part, split, count, true, m.inputs, m.outputs, m.pieces, m.row_parallel});
}

void vector(Groups& groups, Part part, Split split, std::int64_t count) {
  if (count > 0) groups.push_back({part, split, count, false});
}

std::int64_t norm_size(const Model& model) { return model.hidden_size * (model.norm_bias ? 2 : 1); }

/// Multi-head or grouped-query attention: h x (a + 2k)d and ad x h.
void add_attention(Groups& groups, const Model& model) {
  const std::int64_t query = model.num_attention_heads * model.head_dim;
  const std::int64_t key_value = std::int64_t{2} * model.num_query_groups * model.head_dim;
  const std::int64_t gated = model.attention_output_gate ? 2 : 1;
  matrix(groups, Part::attention, Split::tensor, {model.hidden_size, gated * query});
  matrix(groups, Part::attention, Split::query_groups, {model.hidden_size, key_value / 2, 2});
  matrix(groups, Part::attention, Split::tensor, {query, model.hidden_size, 1, true});
  if (model.qkv_bias) {
    vector(groups, Part::attention, Split::tensor, gated * query);
    vector(groups, Part::attention, Split::query_groups, key_value);
  }
  if (model.attention_output_bias) vector(groups, Part::attention, Split::replicated, model.hidden_size);
  if (model.attention_sinks) vector(groups, Part::attention, Split::tensor, model.num_attention_heads);
  if (model.qk_norm) vector(groups, Part::norm, Split::replicated, 2 * model.head_dim);
}

/// h q + q + q a(n + r) + h(c + r) + c + c a(n + v) + a v h. The down-projections are the same on every tensor-parallel
/// rank, the up-projections are split by heads.    Source: DeepSeek-V2 (arXiv 2405.04434); Megatron-LM's MLA layer
void add_latent_attention(Groups& groups, const Model& model) {
  const LatentAttention& latent = *model.latent_attention;
  const std::int64_t h = model.hidden_size;
  const std::int64_t heads = model.num_attention_heads;
  const std::int64_t query = heads * (latent.nope_dim + latent.rope_dim);
  if (latent.q_rank > 0) {
    matrix(groups, Part::attention, Split::replicated, {h, latent.q_rank});
    vector(groups, Part::norm, Split::replicated, latent.q_rank);
    matrix(groups, Part::attention, Split::tensor, {latent.q_rank, query});
  } else {
    matrix(groups, Part::attention, Split::tensor, {h, query});
  }
  matrix(groups, Part::attention, Split::replicated, {h, latent.kv_rank + latent.rope_dim});
  vector(groups, Part::norm, Split::replicated, latent.kv_rank);
  matrix(groups, Part::attention, Split::tensor, {latent.kv_rank, heads * (latent.nope_dim + latent.v_dim)});
  matrix(groups, Part::attention, Split::tensor, {heads * latent.v_dim, h, 1, true});
  if (!model.sparse_attention) return;
  // The indexer is the same on every tensor-parallel rank: queries from the latent one, a key with a LayerNorm, weights of heads.
  const SparseAttention& sparse = *model.sparse_attention;
  matrix(groups, Part::attention, Split::replicated, {latent.q_rank, sparse.index_heads * sparse.index_dim});
  matrix(groups, Part::attention, Split::replicated, {h, sparse.index_dim});
  matrix(groups, Part::attention, Split::replicated, {h, sparse.index_heads});
  vector(groups, Part::norm, Split::replicated, 2 * sparse.index_dim);
}

/// One projection to all that the scan reads (Kimi: the gates have low-rank ones of their own, whose down-projections are
/// the same on every tensor-parallel rank), the convolution, decays and their biases, the gated norm, and the projection
/// back.   Source: Megatron-LM's mamba_mixer, gated_delta_net and kda; the published checkpoints
void add_linear_attention(Groups& groups, const Model& model, Mixer mixer) {
  const LinearAttention& linear = *model.linear_attention;
  const std::int64_t h = model.hidden_size;
  const std::int64_t keys = linear.keys();
  const std::int64_t values = linear.values();
  const std::int64_t convolved = 2 * keys + values;
  const auto add = [&](Split split, std::int64_t count) { vector(groups, Part::attention, split, count); };
  if (mixer == Mixer::kimi_delta) {
    matrix(groups, Part::attention, Split::tensor, {h, convolved});
    matrix(groups, Part::attention, Split::replicated, {h, linear.heads});
    matrix(groups, Part::attention, Split::replicated, {h, linear.head_dim, 2});
    matrix(groups, Part::attention, Split::tensor, {linear.head_dim, keys});
    matrix(groups, Part::attention, Split::tensor, {linear.head_dim, values});
    add(Split::tensor, linear.heads + keys);
  } else {
    const std::int64_t per_head = mixer == Mixer::mamba2 ? 1 : 2;
    matrix(groups, Part::attention, Split::tensor, {h, convolved + values + per_head * linear.heads});
    add(Split::tensor, (mixer == Mixer::mamba2 ? 3 : 2) * linear.heads);
  }
  const std::int64_t bias = mixer == Mixer::mamba2 ? 1 : 0;
  add(Split::tensor, convolved * (linear.conv_kernel + bias));
  if (mixer == Mixer::mamba2)
    vector(groups, Part::norm, Split::tensor, values);
  else
    vector(groups, Part::norm, Split::replicated, linear.head_dim);
  matrix(groups, Part::attention, Split::tensor, {values, h, 1, true});
}

void add_mixer(Groups& groups, const Model& model, int layer) {
  if (model.mixer(layer) == Mixer::none) return;
  if (model.mixes_linearly(layer)) return add_linear_attention(groups, model, model.mixer(layer));
  model.latent_attention ? add_latent_attention(groups, model) : add_attention(groups, model);
}

/// Two matrices h x f and f x h, or three when gated.
void add_mlp(Groups& groups, const Model& model, std::int64_t width) {
  const std::int64_t inputs = model.gated() ? 2 : 1;
  matrix(groups, Part::mlp, Split::tensor, {model.hidden_size, width, inputs});
  matrix(groups, Part::mlp, Split::tensor, {width, model.hidden_size, 1, true});
  if (!model.mlp_bias || width == 0) return;
  vector(groups, Part::mlp, Split::tensor, inputs * width);
  vector(groups, Part::mlp, Split::replicated, model.hidden_size);
}

void add_experts(Groups& groups, const Model& model) {
  const MixtureOfExperts& moe = *model.moe;
  const std::int64_t inputs = model.gated() ? 2 : 1;
  matrix(groups, Part::router, Split::replicated, {model.hidden_size, moe.experts});
  if (moe.router_bias) vector(groups, Part::router, Split::replicated, moe.experts);
  matrix(groups, Part::expert, Split::expert, {model.hidden_size, moe.ffn_hidden, moe.experts * inputs});
  matrix(groups, Part::expert, Split::expert, {moe.ffn_hidden, model.hidden_size, moe.experts, true});
  if (moe.expert_bias) {
    vector(groups, Part::expert, Split::expert, moe.experts * inputs * moe.ffn_hidden);
    vector(groups, Part::expert, Split::expert_bias, moe.experts * model.hidden_size);
  }
  add_mlp(groups, model, moe.shared_ffn_hidden);
  if (moe.shared_expert_gate) matrix(groups, Part::mlp, Split::replicated, {model.hidden_size, 1});
}

}  // namespace

int layer_norms(const Model& model, int layer) {
  const int mixers = model.encoder_layers > 0 && layer >= model.encoder_layers ? 2 : 1;
  return (model.mixer(layer) == Mixer::none ? 0 : mixers) + (model.has_feed_forward(layer) ? 1 : 0);
}

std::vector<ParameterGroup> layer_parameter_groups(const Model& model, int layer) {
  TRACECAST_ASSERT(layer >= 0 && layer < model.layers(), "a layer of the model");
  Groups groups;
  groups.reserve(8);  // as many as most layers have: searches ask for thousands of layers
  const bool attends_encoder = model.encoder_layers > 0 && layer >= model.encoder_layers;
  add_mixer(groups, model, layer);
  if (attends_encoder) add_attention(groups, model);
  if (model.is_moe_layer(layer)) {
    add_experts(groups, model);
  } else if (model.has_feed_forward(layer)) {
    add_mlp(groups, model, model.ffn_hidden_size);
  }
  vector(groups, Part::norm, Split::replicated, layer_norms(model, layer) * norm_size(model));
  return groups;
}

std::vector<ParameterGroup> embedding_parameter_groups(const Model& model) {
  Groups groups;
  vector(groups, Part::embedding, Split::tensor, model.vocab_size * model.hidden_size);
  if (model.position == Position::learned) {
    vector(groups, Part::embedding, Split::replicated, model.max_position_embeddings * model.hidden_size);
  }
  if (model.embedding_norm) vector(groups, Part::embedding, Split::replicated, norm_size(model));
  return groups;
}

std::vector<ParameterGroup> head_parameter_groups(const Model& model) {
  Groups groups;
  const int stacks = model.encoder_layers > 0 ? 2 : 1;
  if (model.final_norm) vector(groups, Part::norm, Split::replicated, stacks * norm_size(model));
  if (!model.tied_embeddings) {
    matrix(groups, Part::output, Split::tensor, {model.hidden_size, model.vocab_size});
  }
  return groups;
}

std::vector<ParameterGroup> mtp_parameter_groups(const Model& model) {
  Groups groups = layer_parameter_groups(model, model.layers() - 1);
  matrix(groups, Part::mlp, Split::tensor, {2 * model.hidden_size, model.hidden_size});
  vector(groups, Part::norm, Split::replicated, 3 * norm_size(model));
  return groups;
}

std::int64_t sum(const std::vector<ParameterGroup>& groups) {
  std::int64_t total = 0;
  for (const ParameterGroup& group : groups) total += group.count;
  return total;
}

std::int64_t sum(const std::vector<ParameterGroup>& groups, Part part) {
  std::int64_t total = 0;
  for (const ParameterGroup& group : groups) {
    if (group.part == part) total += group.count;
  }
  return total;
}

}  // namespace tracecast
