// The tensors of a checkpoint as Hugging Face and Megatron name and shape them, an oracle of the parameter counts.
// Decoder-only models with one kind of layer: with experts or latent attention names differ from library to library.
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/io/files.hpp"
#include "sim/model/parameters.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

/// A vector has one column.
struct NamedTensor {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t columns = 1;
  std::int64_t padding_rows = 0;  ///< of `rows`, beyond the vocabulary
  std::int64_t parameters() const { return (rows - padding_rows) * columns; }
};

using Tensors = std::vector<NamedTensor>;

void norm(Tensors& tensors, const Model& model, const std::string& name) {
  tensors.push_back({name + ".weight", model.hidden_size});
  if (model.norm_bias) tensors.push_back({name + ".bias", model.hidden_size});
}

void linear(Tensors& tensors, const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
  tensors.push_back({name + ".weight", rows, columns});
  if (bias) tensors.push_back({name + ".bias", rows});
}

Tensors huggingface_tensors(const Model& model) {
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

/// Fused query-key-value and gate-up matrices; the vocabulary padded to a multiple of 128 tp.
Tensors megatron_tensors(const Model& model, int tp) {
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

std::int64_t total(const Tensors& tensors) {
  std::int64_t sum = 0;
  for (const NamedTensor& tensor : tensors) sum += tensor.parameters();
  return sum;
}

}  // namespace

TEST_CASE("Megatron's and Hugging Face's tensors hold the same parameters", "[oracle][model]") {
  const std::string name =
      GENERATE("llama-2-7b", "llama-3.1-405b", "qwen3-8b", "gpt2-1.5b", "bloom-176b", "llm-jp-13b");
  const int tp = GENERATE(1, 3, 8);
  CAPTURE(name, tp);
  const Model model = shipped_model(name);
  const Tensors hugging_face = huggingface_tensors(model);
  const Tensors megatron = megatron_tensors(model, tp);
  CHECK(total(hugging_face) == parameter_count(model).total());
  CHECK(total(megatron) == parameter_count(model).total());
  CHECK(megatron.front().rows % (128 * tp) == 0);
  CHECK(megatron.size() < hugging_face.size());
}
