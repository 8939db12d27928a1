#include "sim/reliability/checkpoint_layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/model/parameters.hpp"

namespace tracecast {
namespace {

using Ranges = std::vector<ParameterRange>;

std::int64_t cut(std::int64_t total, std::int64_t part, std::int64_t parts) {
  // total x part may pass 63 bits for nothing that exists; split the quotient to be sure.
  return total / parts * part + total % parts * part / parts;
}

/// Slice `rank` of a group that begins at number `begin`.
void add_slice(Ranges& ranges, const ParameterGroup& group, std::int64_t begin, int tp, int rank) {
  if (group.split == Split::replicated) {
    if (rank == 0) ranges.push_back({begin, begin + group.count});
    return;
  }
  const ParameterRange range{begin + cut(group.count, rank, tp), begin + cut(group.count, rank + 1, tp)};
  if (range.begin < range.end) ranges.push_back(range);
}

/// What tensor rank `tp_rank` of pipeline rank `pp_rank` holds, all of its data-parallel ranks together.
Ranges model_shard(const Model& model, const ShardLayout& layout, int pp_rank, int tp_rank) {
  Ranges ranges;
  std::int64_t at = 0;
  const auto add = [&](const std::vector<ParameterGroup>& groups, bool mine) {
    for (const ParameterGroup& group : groups) {
      if (mine) add_slice(ranges, group, at, layout.tp, tp_rank);
      at += group.count;
    }
  };
  const int layers = model.layers();
  add(embedding_parameter_groups(model), pp_rank == 0);
  for (int layer = 0; layer < layers; ++layer) {
    const bool mine = layer >= cut(layers, pp_rank, layout.pp) && layer < cut(layers, pp_rank + 1, layout.pp);
    add(layer_parameter_groups(model, layer), mine);
  }
  add(head_parameter_groups(model), pp_rank == layout.pp - 1);
  for (int layer = 0; layer < model.mtp_layers; ++layer) add(mtp_parameter_groups(model), pp_rank == layout.pp - 1);
  return ranges;
}

bool overlap(const Ranges& a, const Ranges& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end <= b[j].begin)
      ++i;
    else if (b[j].end <= a[i].begin)
      ++j;
    else
      return true;
  }
  return false;
}

std::vector<Ranges> all_shards(const Model& model, const ShardLayout& layout) {
  std::vector<Ranges> shards;
  for (int pp = 0; pp < layout.pp; ++pp)
    for (int tp = 0; tp < layout.tp; ++tp)
      for (int dp = 0; dp < layout.dp; ++dp) shards.push_back(shard(model, layout, pp, tp, dp));
  return shards;
}

Result<void> has_plain_layers(const Model& model) {
  if (model.moe || model.latent_attention || model.encoder_layers > 0 || model.attention_sinks || model.mtp_layers > 0)
    return fail(
        fmt::format("{}: tensors of models with experts, latent attention, an encoder, sinks or multi-token "
                    "prediction are not listed",
                    model.name));
  return {};
}

using Tensors = std::vector<NamedTensor>;

void norm(Tensors& tensors, const Model& model, const std::string& name) {
  tensors.push_back({name + ".weight", model.hidden_size});
  if (model.norm_bias) tensors.push_back({name + ".bias", model.hidden_size});
}

void linear(Tensors& tensors, const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
  tensors.push_back({name + ".weight", rows, columns});
  if (bias) tensors.push_back({name + ".bias", rows});
}

}  // namespace

std::vector<ParameterRange> shard(const Model& model, const ShardLayout& layout, int pp_rank, int tp_rank,
                                  int dp_rank) {
  TRACECAST_ASSERT(pp_rank < layout.pp && tp_rank < layout.tp && dp_rank < layout.dp, "a rank of the layout");
  const Ranges all = model_shard(model, layout, pp_rank, tp_rank);
  const std::int64_t total = count(all);
  const std::int64_t first = cut(total, dp_rank, layout.dp), last = cut(total, dp_rank + 1, layout.dp);
  Ranges mine;
  std::int64_t before = 0;
  for (const ParameterRange& range : all) {
    const std::int64_t size = range.end - range.begin;
    const std::int64_t from = std::clamp<std::int64_t>(first - before, 0, size);
    const std::int64_t to = std::clamp<std::int64_t>(last - before, 0, size);
    if (from < to) mine.push_back({range.begin + from, range.begin + to});
    before += size;
  }
  return mine;
}

std::int64_t count(const std::vector<ParameterRange>& ranges) {
  std::int64_t total = 0;
  for (const ParameterRange& range : ranges) total += range.end - range.begin;
  return total;
}

ReshardRead reshard(const Model& model, const ShardLayout& from, const ShardLayout& to) {
  ReshardRead read;
  const std::vector<Ranges> old_shards = all_shards(model, from);
  for (const Ranges& fresh : all_shards(model, to)) {
    read.needed += count(fresh);
    for (const Ranges& old : old_shards)
      if (overlap(fresh, old)) read.whole_shards += count(old);
  }
  return read;
}

Result<std::vector<NamedTensor>> huggingface_tensors(const Model& model) {
  if (Result<void> plain = has_plain_layers(model); !plain) return tl::unexpected(plain.error());
  const std::int64_t h = model.hidden_size;
  const std::int64_t query = model.num_attention_heads * model.head_dim;
  const std::int64_t key = model.num_query_groups * model.head_dim;
  Tensors t = {{"model.embed_tokens.weight", model.vocab_size, h}};
  if (model.position == Position::learned)
    t.push_back({"model.embed_positions.weight", model.max_position_embeddings, h});
  if (model.embedding_norm) norm(t, model, "model.embed_layernorm");
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    norm(t, model, at + "input_layernorm");
    linear(t, at + "self_attn.q_proj", query, h, model.qkv_bias);
    linear(t, at + "self_attn.k_proj", key, h, model.qkv_bias);
    linear(t, at + "self_attn.v_proj", key, h, model.qkv_bias);
    linear(t, at + "self_attn.o_proj", h, query, model.attention_output_bias);
    if (model.qk_norm)
      for (const char* which : {"q_norm", "k_norm"})
        t.push_back({at + "self_attn." + which + ".weight", model.head_dim});
    norm(t, model, at + "post_attention_layernorm");
    if (model.gated()) linear(t, at + "mlp.gate_proj", model.ffn_hidden_size, h, model.mlp_bias);
    linear(t, at + "mlp.up_proj", model.ffn_hidden_size, h, model.mlp_bias);
    linear(t, at + "mlp.down_proj", h, model.ffn_hidden_size, model.mlp_bias);
  }
  if (model.final_norm) norm(t, model, "model.norm");
  if (!model.tied_embeddings) t.push_back({"lm_head.weight", model.vocab_size, h});
  return t;
}

Result<std::vector<NamedTensor>> megatron_tensors(const Model& model, int tp) {
  if (Result<void> plain = has_plain_layers(model); !plain) return tl::unexpected(plain.error());
  const std::int64_t h = model.hidden_size;
  const std::int64_t query = model.num_attention_heads * model.head_dim;
  const std::int64_t key = model.num_query_groups * model.head_dim;
  const std::int64_t multiple = std::int64_t{128} * tp;
  const std::int64_t vocab = round_up(model.vocab_size, multiple);
  const std::int64_t padding = vocab - model.vocab_size;
  Tensors t = {{"embedding.word_embeddings.weight", vocab, h, padding}};
  if (model.position == Position::learned)
    t.push_back({"embedding.position_embeddings.weight", model.max_position_embeddings, h});
  if (model.embedding_norm) norm(t, model, "embedding.layernorm");
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const std::string at = fmt::format("decoder.layers.{}.", layer);
    norm(t, model, at + "self_attention.linear_qkv.layer_norm");
    linear(t, at + "self_attention.linear_qkv", query + 2 * key, h, model.qkv_bias);
    linear(t, at + "self_attention.linear_proj", h, query, model.attention_output_bias);
    if (model.qk_norm)
      for (const char* which : {"q_layernorm", "k_layernorm"})
        t.push_back({at + "self_attention." + which + ".weight", model.head_dim});
    norm(t, model, at + "mlp.linear_fc1.layer_norm");
    linear(t, at + "mlp.linear_fc1", (model.gated() ? 2 : 1) * model.ffn_hidden_size, h, model.mlp_bias);
    linear(t, at + "mlp.linear_fc2", h, model.ffn_hidden_size, model.mlp_bias);
  }
  if (model.final_norm) norm(t, model, "decoder.final_layernorm");
  if (!model.tied_embeddings) t.push_back({"output_layer.weight", vocab, h, padding});
  return t;
}

}  // namespace tracecast
