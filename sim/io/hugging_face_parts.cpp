#include "sim/io/hugging_face_parts.hpp"

#include <algorithm>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tracecast {

void read_sizes(HuggingFaceConfig& config, Model& model) {
  config.require("num_layers", {"num_hidden_layers", "n_layer"}, model.num_layers);
  config.require("hidden_size", {"hidden_size", "n_embd", "n_embed"}, model.hidden_size);
  config.require("num_attention_heads", {"num_attention_heads", "n_head"}, model.num_attention_heads);
  config.require("vocab_size", {"vocab_size"}, model.vocab_size);
}

Activation gated_activation(HuggingFaceConfig& config) {
  const std::string name = config.word("hidden_act");
  if (name.empty() || name == "silu" || name == "swish") return Activation::swiglu;
  if (name.starts_with("gelu")) return Activation::geglu;
  config.error("hidden_act", "is not supported (allowed: silu gelu)");
  return Activation::swiglu;
}

void read_layer_sizes(HuggingFaceConfig& config, Model& model) {
  config.read("num_query_groups", {"num_key_value_heads"}, model.num_query_groups);
  config.read("head_dim", {"head_dim"}, model.head_dim);
  config.require("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  config.read("max_position_embeddings", {"max_position_embeddings"}, model.max_position_embeddings);
}

void read_biases(HuggingFaceConfig& config, Model& model) {
  model.qkv_bias = model.attention_output_bias = config.flag("attention_bias", false);
  model.mlp_bias = config.flag("mlp_bias", false);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
}

void read_llama(HuggingFaceConfig& config, Model& model) {
  read_sizes(config, model);
  model.activation = gated_activation(config);
  read_layer_sizes(config, model);
  config.read("dropout", {"attention_dropout"}, model.dropout);
  read_biases(config, model);
}

void read_qwen2(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  model.qkv_bias = true;
  model.attention_output_bias = false;
  config.require_flag("use_sliding_window", false);
}

void read_qwen3(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  model.qk_norm = true;
  config.require_flag("use_sliding_window", false);
}

MixtureOfExperts& read_experts(HuggingFaceConfig& config, Model& model, const std::vector<std::string>& experts,
                               const std::vector<std::string>& topk, const std::vector<std::string>& ffn_hidden) {
  MixtureOfExperts& moe = model.moe.emplace();
  config.require("moe.experts", experts, moe.experts);
  config.require("moe.topk", topk, moe.topk);
  config.require("moe.ffn_hidden", ffn_hidden, moe.ffn_hidden);
  return moe;
}

void read_qwen_experts(HuggingFaceConfig& config, Model& model) {
  MixtureOfExperts& moe = read_experts(config, model, {"num_experts"});
  config.read("moe.layer_interval", {"decoder_sparse_step"}, moe.layer_interval);
  const JsonNode* dense = config.list("mlp_only_layers");
  if (dense != nullptr && !dense->items.empty()) config.error("mlp_only_layers", "is not supported (allowed: [])");
}

void read_qwen_shared_expert(HuggingFaceConfig& config, Model& model) {
  config.read("moe.shared_ffn_hidden", {"shared_expert_intermediate_size"}, model.moe->shared_ffn_hidden);
  model.moe->shared_expert_gate = model.moe->shared_ffn_hidden > 0;
}

std::optional<std::string> layer_letters(HuggingFaceConfig& config, const Model& model, const std::string& key,
                                         const std::vector<LayerWord>& words) {
  const JsonNode* list = config.list(key);
  if (list == nullptr || list->items.empty()) return std::nullopt;
  std::string letters;
  for (const JsonNode& item : list->items) {
    const auto word =
        std::ranges::find(words, item.kind == JsonNode::Kind::string ? item.string : item.text(), &LayerWord::first);
    if (word == words.end()) {
      config.error(key, fmt::format("has other layers (allowed: {})", fmt::join(std::views::keys(words), " ")));
      return letters;
    }
    letters += word->second;
  }
  check_layers(config, model, key, letters.size());
  return letters;
}

std::optional<std::string> every_layer(const Model& model, char letter) {
  if (model.num_layers < 1 || model.num_layers > 1 << 12) return std::nullopt;
  return std::string(static_cast<std::size_t>(model.num_layers), letter);
}

void check_layers(HuggingFaceConfig& config, const Model& model, const std::string& key, std::size_t length) {
  if (length != static_cast<std::size_t>(std::max(0, model.num_layers)))
    config.error(key, fmt::format("has {} layers, the model {}", length, model.num_layers));
}

int every_nth(HuggingFaceConfig& config, const std::string& key, std::string_view letters, char letter,
              std::string_view what) {
  const std::size_t first = letters.find(letter);
  const std::size_t interval = first == std::string_view::npos ? 0 : first + 1;
  for (std::size_t layer = 0; layer < letters.size(); ++layer) {
    const bool expected = interval != 0 && (layer + 1) % interval == 0;
    if ((letters[layer] == letter) == expected) continue;
    config.error(key, fmt::format("is not supported (allowed: {} in every n-th layer)", what));
    break;
  }
  return static_cast<int>(interval);
}

void read_latent_attention(HuggingFaceConfig& config, Model& model) {
  LatentAttention& latent = model.latent_attention.emplace();
  config.read("latent_attention.q_rank", {"q_lora_rank"}, latent.q_rank);
  config.require("latent_attention.kv_rank", {"kv_lora_rank"}, latent.kv_rank);
  config.require("latent_attention.nope_dim", {"qk_nope_head_dim"}, latent.nope_dim);
  config.require("latent_attention.rope_dim", {"qk_rope_head_dim"}, latent.rope_dim);
  config.require("latent_attention.v_dim", {"v_head_dim"}, latent.v_dim);
}

void read_shared_experts(HuggingFaceConfig& config, const std::string& key, MixtureOfExperts& moe) {
  int shared = 0;
  config.read("moe.shared_ffn_hidden", {key}, shared);
  if (shared < 0 || shared > 1024) return config.error(key, "is out of range (allowed: 0 to 1024)");
  moe.shared_ffn_hidden = shared * std::clamp<std::int64_t>(moe.ffn_hidden, 0, 1 << 30);
}

}  // namespace tracecast
