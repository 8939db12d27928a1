/// Models that several tests are about: "L, h, f, a, k, V".
#pragma once

#include "sim/model/model.hpp"

namespace tracecast::test {

/// No biases, RMSNorm, SwiGLU, rotary positions, untied output layer.
inline Model llama(int layers, std::int64_t hidden, std::int64_t ffn, int heads, int groups, std::int64_t vocab) {
  return {.num_layers = layers,
          .hidden_size = hidden,
          .num_attention_heads = heads,
          .num_query_groups = groups,
          .head_dim = hidden / heads,
          .ffn_hidden_size = ffn,
          .vocab_size = vocab};
}

inline Model llama3_8b() { return llama(32, 4096, 14336, 32, 8, 128256); }
inline Model llama3_70b() { return llama(80, 8192, 28672, 64, 8, 128256); }
inline Model llama3_405b() { return llama(126, 16384, 53248, 128, 8, 128256); }

/// Biases, LayerNorm, learned positions, tied embeddings, f = 4h, dropout.
inline Model gpt(int layers, std::int64_t hidden, int heads, std::int64_t vocab, std::int64_t positions) {
  Model model = llama(layers, hidden, 4 * hidden, heads, heads, vocab);
  model.activation = Activation::gelu;
  model.norm = Norm::layer_norm;
  model.position = Position::learned;
  model.max_position_embeddings = positions;
  model.tied_embeddings = true;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = model.norm_bias = true;
  model.dropout = 0.1;
  return model;
}

inline Model mixtral_8x7b() {
  Model model = llama(32, 4096, 14336, 32, 8, 32000);
  model.moe = MixtureOfExperts{};
  model.moe->experts = 8;
  model.moe->topk = 2;
  model.moe->ffn_hidden = 14336;
  return model;
}

inline Model deepseek_v3() {
  Model model = llama(61, 7168, 18432, 128, 128, 129280);
  model.head_dim = 192;
  model.latent_attention =
      LatentAttention{.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .v_dim = 128};
  model.moe = MixtureOfExperts{};
  model.moe->experts = 256;
  model.moe->topk = 8;
  model.moe->ffn_hidden = 2048;
  model.moe->shared_ffn_hidden = 2048;
  model.moe->leading_dense_layers = 3;
  model.moe->router_bias = true;
  model.moe->routing_groups = 8;
  model.moe->routing_group_limit = 4;
  return model;
}

inline Model gpt_oss(int layers, int experts) {
  Model model = llama(layers, 2880, 0, 64, 8, 201088);
  model.head_dim = 64;
  model.qkv_bias = model.attention_output_bias = true;
  model.attention_sinks = model.yarn = true;
  model.sliding_window = 128;
  model.global_layer_interval = 2;
  model.moe = MixtureOfExperts{};
  model.moe->experts = experts;
  model.moe->topk = 4;
  model.moe->ffn_hidden = 2880;
  model.moe->router_bias = model.moe->expert_bias = model.moe->clamped_activation = true;
  return model;
}

}  // namespace tracecast::test
