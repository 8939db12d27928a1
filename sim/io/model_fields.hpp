/// \file
/// The keys of a model file, each named once, for both the reader and the writer (see scenario_fields.hpp).
#pragma once

#include "sim/io/field_limits.hpp"
#include "sim/model/model.hpp"

namespace tracecast {

inline constexpr Range kSize{0, 1'000'000'000'000};  ///< `validated` has the tighter limits
inline constexpr Range kNumber{0, INT32_MAX};

/// Without `latent_attention` and `moe`, which are separate objects. `m` is a Model, const or not.
template <class Visitor, class M>
void visit_model(Visitor&& visit, M&& m) {
  visit("name", m.name);
  visit("num_layers", m.num_layers, kNumber);
  visit("encoder_layers", m.encoder_layers, kNumber);
  visit("mtp_layers", m.mtp_layers, kNumber);
  visit("hidden_size", m.hidden_size, kSize);
  visit("num_attention_heads", m.num_attention_heads, kNumber);
  visit("num_query_groups", m.num_query_groups, kNumber);
  visit("head_dim", m.head_dim, kSize);
  visit("ffn_hidden_size", m.ffn_hidden_size, kSize);
  visit("vocab_size", m.vocab_size, kSize);
  visit("max_position_embeddings", m.max_position_embeddings, kSize);
  visit("activation", m.activation, named_values<Activation>());
  visit("norm", m.norm, named_values<Norm>());
  visit("position", m.position, named_values<Position>());
  visit("tied_embeddings", m.tied_embeddings);
  visit("qkv_bias", m.qkv_bias);
  visit("attention_output_bias", m.attention_output_bias);
  visit("mlp_bias", m.mlp_bias);
  visit("norm_bias", m.norm_bias);
  visit("qk_norm", m.qk_norm);
  visit("embedding_norm", m.embedding_norm);
  visit("final_norm", m.final_norm);
  visit("attention_sinks", m.attention_sinks);
  visit("parallel_residual", m.parallel_residual);
  visit("dropout", m.dropout);
  visit("sliding_window", m.sliding_window, kSize);
  visit("global_layer_interval", m.global_layer_interval, kNumber);
}

template <class Visitor, class L>
void visit_latent_attention(Visitor&& visit, L&& l) {
  visit("q_rank", l.q_rank, kSize);
  visit("kv_rank", l.kv_rank, kSize);
  visit("nope_dim", l.nope_dim, kSize);
  visit("rope_dim", l.rope_dim, kSize);
  visit("v_dim", l.v_dim, kSize);
}

template <class Visitor, class M>
void visit_moe(Visitor&& visit, M&& m) {
  visit("experts", m.experts, kNumber);
  visit("topk", m.topk, kNumber);
  visit("ffn_hidden", m.ffn_hidden, kSize);
  visit("shared_ffn_hidden", m.shared_ffn_hidden, kSize);
  visit("shared_expert_gate", m.shared_expert_gate);
  visit("leading_dense_layers", m.leading_dense_layers, kNumber);
  visit("layer_interval", m.layer_interval, kNumber);
  visit("router_bias", m.router_bias);
  visit("expert_bias", m.expert_bias);
  visit("routing_groups", m.routing_groups, kNumber);
  visit("routing_group_limit", m.routing_group_limit, kNumber);
}

}  // namespace tracecast
