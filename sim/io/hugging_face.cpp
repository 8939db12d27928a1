#include "sim/io/hugging_face.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <ranges>

#include <fmt/format.h>

namespace tracecast {
namespace {

using Keys = std::vector<std::string>;

/// The object of one language model. Records which key each field was read from, so that errors found by `validated`
/// are reported at the key of the file.
class ConfigReader {
 public:
  ConfigReader(const JsonNode& node, const std::string& file, const std::string& path, std::vector<Diagnostic>& errors,
               std::vector<std::string>* used)
      : node_(&node), object_(node, file, path, errors), used_(used) {}

  /// The first of `keys` that is present and not null; "" if all are missing.
  std::string present(const Keys& keys) const {
    for (const std::string& key : keys) {
      const JsonNode* member = node_->find(key);
      if (member == nullptr || member->kind == JsonNode::Kind::null) continue;
      note(key);
      return key;
    }
    return "";
  }

  /// `own` is the field's key in Tracecast's own model files.
  template <class T>
  bool read(const std::string& own, const Keys& keys, T& value) {
    const std::string key = present(keys);
    if (key.empty()) return false;
    keys_[own] = key;
    return object_.get(key, value);
  }
  template <class T>
  void require(const std::string& own, const Keys& keys, T& value) {
    if (present(keys).empty()) {
      object_.error(keys.front(), "is missing");
    } else {
      read(own, keys, value);
    }
  }
  bool flag(const std::string& key, bool otherwise) {
    read(key, {key}, otherwise);
    return otherwise;
  }
  std::string word(const std::string& key) {
    std::string value;
    read(key, {key}, value);
    return value;
  }
  const JsonNode* list(const std::string& key) {
    const JsonNode* member = node_->find(key);
    if (member == nullptr || member->kind != JsonNode::Kind::array) return nullptr;
    note(key);
    return member;
  }
  std::optional<ObjectReader> object(const std::string& key) {
    if (present({key}).empty()) {
      object_.error(key, "is missing");
      return std::nullopt;
    }
    return object_.get_object(key);
  }
  void error(const std::string& key, std::string message) { object_.error(key, std::move(message)); }

  void report(const Diagnostic& invalid) {
    constexpr std::string_view kPrefix = "model.";
    std::string own = invalid.key;
    if (own.starts_with(kPrefix)) own.erase(0, kPrefix.size());
    const auto found = keys_.find(own);
    object_.error(found == keys_.end() ? own : found->second, invalid.message);
  }

 private:
  void note(const std::string& key) const {
    if (used_ != nullptr) used_->push_back(object_.dotted(key));
  }

  const JsonNode* node_;
  ObjectReader object_;
  std::vector<std::string>* used_;
  std::map<std::string, std::string> keys_;
};

void read_sizes(ConfigReader& config, Model& model) {
  config.require("num_layers", {"num_hidden_layers", "n_layer"}, model.num_layers);
  config.require("hidden_size", {"hidden_size", "n_embd", "n_embed"}, model.hidden_size);
  config.require("num_attention_heads", {"num_attention_heads", "n_head"}, model.num_attention_heads);
  config.require("vocab_size", {"vocab_size"}, model.vocab_size);
}

Activation gated_activation(ConfigReader& config) {
  const std::string name = config.word("hidden_act");
  if (name.empty() || name == "silu" || name == "swish") return Activation::swiglu;
  if (name.starts_with("gelu")) return Activation::geglu;
  config.error("hidden_act", "is not supported (allowed: silu gelu)");
  return Activation::swiglu;
}

/// RMSNorm, rotary positions, gated MLP, grouped-query attention.
void read_llama(ConfigReader& config, Model& model) {
  read_sizes(config, model);
  model.activation = gated_activation(config);
  config.read("num_query_groups", {"num_key_value_heads"}, model.num_query_groups);
  config.read("head_dim", {"head_dim"}, model.head_dim);
  config.require("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  config.read("max_position_embeddings", {"max_position_embeddings"}, model.max_position_embeddings);
  config.read("dropout", {"attention_dropout"}, model.dropout);
  model.qkv_bias = model.attention_output_bias = config.flag("attention_bias", false);
  model.mlp_bias = config.flag("mlp_bias", false);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
}

void read_mistral(ConfigReader& config, Model& model) {
  read_llama(config, model);
  config.read("sliding_window", {"sliding_window"}, model.sliding_window);
}

void read_qwen2(ConfigReader& config, Model& model) {
  read_llama(config, model);
  model.qkv_bias = true;
  model.attention_output_bias = false;
  if (config.flag("use_sliding_window", false)) config.error("use_sliding_window", "is not supported (allowed: false)");
}

void read_qwen3(ConfigReader& config, Model& model) {
  read_llama(config, model);
  model.qk_norm = true;
  if (config.flag("use_sliding_window", false)) config.error("use_sliding_window", "is not supported (allowed: false)");
}

/// Baichuan 13B has no max_position_embeddings: it uses ALiBi.
void read_baichuan(ConfigReader& config, Model& model) {
  read_llama(config, model);
  if (config.present({"max_position_embeddings"}).empty()) model.position = Position::alibi;
}

/// One width for every expert, given as the MLP's own.
void read_local_experts(ConfigReader& config, Model& model) {
  MixtureOfExperts& moe = model.moe.emplace();
  config.require("moe.experts", {"num_local_experts"}, moe.experts);
  config.require("moe.topk", {"num_experts_per_tok", "experts_per_token"}, moe.topk);
  config.require("moe.ffn_hidden", {"intermediate_size"}, moe.ffn_hidden);
}

void read_mixtral(ConfigReader& config, Model& model) {
  read_mistral(config, model);
  read_local_experts(config, model);
}

/// Which layers attend globally, as "every n-th".
void read_layer_types(ConfigReader& config, Model& model) {
  const JsonNode* types = config.list("layer_types");
  if (types == nullptr || model.sliding_window == 0) return;
  const auto is_global = [](const JsonNode& type) { return type.string == "full_attention"; };
  const auto first = std::find_if(types->items.begin(), types->items.end(), is_global);
  const auto interval = first == types->items.end() ? 0 : first - types->items.begin() + 1;
  for (std::size_t layer = 0; layer < types->items.size(); ++layer) {
    const bool expected = interval != 0 && (layer + 1) % static_cast<std::size_t>(interval) == 0;
    if (is_global(types->items[layer]) == expected) continue;
    config.error("layer_types", "is not supported (allowed: full_attention in every n-th layer)");
    return;
  }
  model.global_layer_interval = static_cast<int>(interval);
}

void read_gpt_oss(ConfigReader& config, Model& model) {
  read_mixtral(config, model);
  model.attention_sinks = true;
  model.moe->router_bias = model.moe->expert_bias = true;
  read_layer_types(config, model);
}

/// Qwen: every decoder_sparse_step-th layer has experts.
void read_qwen_experts(ConfigReader& config, Model& model) {
  MixtureOfExperts& moe = model.moe.emplace();
  config.require("moe.experts", {"num_experts"}, moe.experts);
  config.require("moe.topk", {"num_experts_per_tok"}, moe.topk);
  config.require("moe.ffn_hidden", {"moe_intermediate_size"}, moe.ffn_hidden);
  config.read("moe.layer_interval", {"decoder_sparse_step"}, moe.layer_interval);
  const JsonNode* dense = config.list("mlp_only_layers");
  if (dense != nullptr && !dense->items.empty()) config.error("mlp_only_layers", "is not supported (allowed: [])");
}

void read_qwen2_moe(ConfigReader& config, Model& model) {
  read_qwen2(config, model);
  read_qwen_experts(config, model);
  config.read("moe.shared_ffn_hidden", {"shared_expert_intermediate_size"}, model.moe->shared_ffn_hidden);
  model.moe->shared_expert_gate = model.moe->shared_ffn_hidden > 0;
}

void read_qwen3_moe(ConfigReader& config, Model& model) {
  read_qwen3(config, model);
  read_qwen_experts(config, model);
}

void read_latent_attention(ConfigReader& config, Model& model) {
  LatentAttention& latent = model.latent_attention.emplace();
  config.read("latent_attention.q_rank", {"q_lora_rank"}, latent.q_rank);
  config.require("latent_attention.kv_rank", {"kv_lora_rank"}, latent.kv_rank);
  config.require("latent_attention.nope_dim", {"qk_nope_head_dim"}, latent.nope_dim);
  config.require("latent_attention.rope_dim", {"qk_rope_head_dim"}, latent.rope_dim);
  config.require("latent_attention.v_dim", {"v_head_dim"}, latent.v_dim);
}

/// Each shared expert is as wide as the others.
void read_shared_experts(ConfigReader& config, const std::string& key, MixtureOfExperts& moe) {
  int shared = 0;
  config.read("moe.shared_ffn_hidden", {key}, shared);
  if (shared < 0 || shared > 1024) return config.error(key, "is out of range (allowed: 0 to 1024)");
  moe.shared_ffn_hidden = shared * std::clamp<std::int64_t>(moe.ffn_hidden, 0, 1 << 30);
}

void read_deepseek_experts(ConfigReader& config, Model& model) {
  MixtureOfExperts& moe = model.moe.emplace();
  config.require("moe.experts", {"n_routed_experts"}, moe.experts);
  config.require("moe.topk", {"num_experts_per_tok"}, moe.topk);
  config.require("moe.ffn_hidden", {"moe_intermediate_size"}, moe.ffn_hidden);
  config.read("moe.leading_dense_layers", {"first_k_dense_replace"}, moe.leading_dense_layers);
  config.read("moe.routing_groups", {"n_group"}, moe.routing_groups);
  config.read("moe.routing_group_limit", {"topk_group"}, moe.routing_group_limit);
  read_shared_experts(config, "n_shared_experts", moe);
  int interval = 1;
  config.read("moe.layer_interval", {"moe_layer_freq"}, interval);
  if (interval != 1) config.error("moe_layer_freq", "is not supported (allowed: 1)");
}

void read_deepseek(ConfigReader& config, Model& model) {
  read_llama(config, model);
  read_latent_attention(config, model);
  if (config.present({"n_routed_experts"}).empty()) return;
  read_deepseek_experts(config, model);
  // The load-balancing bias of each expert.
  model.moe->router_bias = config.word("topk_method") == "noaux_tc";
}

/// DeepSeek-V3 with an indexer.
void read_deepseek_v32(ConfigReader& config, Model& model) {
  read_deepseek(config, model);
  SparseAttention& sparse = model.sparse_attention.emplace();
  config.require("sparse_attention.topk", {"index_topk"}, sparse.topk);
  config.require("sparse_attention.index_heads", {"index_n_heads"}, sparse.index_heads);
  config.require("sparse_attention.index_dim", {"index_head_dim"}, sparse.index_dim);
}

/// GLM 4.5 to 4.7: grouped-query attention with DeepSeek's experts. The output projection has no bias.
void read_glm4_moe(ConfigReader& config, Model& model) {
  read_llama(config, model);
  model.attention_output_bias = false;
  model.qk_norm = config.flag("use_qk_norm", false);
  read_deepseek_experts(config, model);
  model.moe->router_bias = true;
}

/// Llama 4: experts in every n-th layer beside an expert that all tokens pass; dense layers have a width of their own. Chunks of
/// attention are taken as a sliding window of their length, which is exact for sequences up to a chunk, and every n-th layer
/// attends globally.
void read_llama4(ConfigReader& config, Model& model) {
  read_llama(config, model);
  MixtureOfExperts& moe = model.moe.emplace();
  moe.ffn_hidden = moe.shared_ffn_hidden = model.ffn_hidden_size;
  config.require("ffn_hidden_size", {"intermediate_size_mlp"}, model.ffn_hidden_size);
  config.require("moe.experts", {"num_local_experts"}, moe.experts);
  config.require("moe.topk", {"num_experts_per_tok"}, moe.topk);
  config.read("moe.layer_interval", {"interleave_moe_layer_step"}, moe.layer_interval);
  config.read("sliding_window", {"attention_chunk_size"}, model.sliding_window);
  model.global_layer_interval = 4;
  config.read("global_layer_interval", {"no_rope_layer_interval"}, model.global_layer_interval);
  if (model.sliding_window == 0) model.global_layer_interval = 0;
}

void read_gemma(ConfigReader& config, Model& model) {
  read_llama(config, model);
  model.activation = Activation::geglu;
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
}

/// LayerNorm with bias, an MLP of two matrices with squared ReLU; no other biases.
void read_nemotron(ConfigReader& config, Model& model) {
  read_sizes(config, model);
  model.activation = Activation::relu;
  model.norm = Norm::layer_norm;
  model.norm_bias = true;
  config.read("num_query_groups", {"num_key_value_heads"}, model.num_query_groups);
  config.read("head_dim", {"head_dim"}, model.head_dim);
  config.require("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  config.read("max_position_embeddings", {"max_position_embeddings"}, model.max_position_embeddings);
  model.qkv_bias = model.attention_output_bias = config.flag("attention_bias", false);
  model.mlp_bias = config.flag("mlp_bias", false);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
}

/// Biases everywhere, LayerNorm, MLP without gate.
void set_gpt(Model& model) {
  model.activation = Activation::gelu;
  model.norm = Norm::layer_norm;
  model.norm_bias = model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
}

void set_four_times_as_wide(Model& model) {
  constexpr std::int64_t kBelieved = 1 << 30;  // larger hidden sizes are rejected later
  model.ffn_hidden_size = 4 * std::clamp<std::int64_t>(model.hidden_size, 0, kBelieved);
}

void read_gpt2(ConfigReader& config, Model& model) {
  read_sizes(config, model);
  set_gpt(model);
  model.position = Position::learned;
  config.require("max_position_embeddings", {"n_positions", "n_ctx"}, model.max_position_embeddings);
  if (!config.read("ffn_hidden_size", {"n_inner"}, model.ffn_hidden_size)) set_four_times_as_wide(model);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  model.dropout = 0.1;
  config.read("dropout", {"resid_pdrop"}, model.dropout);
}

void read_gpt_neox(ConfigReader& config, Model& model) {
  read_sizes(config, model);
  set_gpt(model);
  config.require("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  config.read("max_position_embeddings", {"max_position_embeddings"}, model.max_position_embeddings);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.qkv_bias = model.attention_output_bias = config.flag("attention_bias", true);
  model.parallel_residual = config.flag("use_parallel_residual", true);
  config.read("dropout", {"hidden_dropout"}, model.dropout);
}

void read_bloom(ConfigReader& config, Model& model) {
  read_sizes(config, model);
  set_gpt(model);
  set_four_times_as_wide(model);
  model.position = Position::alibi;
  model.embedding_norm = true;
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  config.read("dropout", {"hidden_dropout"}, model.dropout);
}

/// A word of the file for a layer, and its letter in Model::layer_pattern.
using LayerWord = std::pair<std::string_view, char>;

/// The pattern that a list of words describes; false: the list is missing.
bool read_layer_words(ConfigReader& config, const std::string& key, std::initializer_list<LayerWord> words,
                      std::string& pattern) {
  const JsonNode* list = config.list(key);
  if (list == nullptr) return false;
  for (const JsonNode& item : list->items) {
    const auto* const word = std::ranges::find(words, item.string, &LayerWord::first);
    if (word == words.end()) {
      config.error(key, fmt::format("has other layers (allowed: {})", fmt::join(std::views::keys(words), " ")));
      break;
    }
    pattern += word->second;
  }
  return true;
}

/// Gated delta nets with gated attention in every fourth layer: the list of layer types, or the interval.
void read_gated_delta_nets(ConfigReader& config, Model& model) {
  model.attention_output_gate = true;
  LinearAttention& linear = model.linear_attention.emplace();
  config.require("linear_attention.heads", {"linear_num_value_heads"}, linear.heads);
  config.require("linear_attention.head_dim", {"linear_value_head_dim"}, linear.head_dim);
  config.require("linear_attention.key_heads", {"linear_num_key_heads"}, linear.key_heads);
  config.require("linear_attention.key_dim", {"linear_key_head_dim"}, linear.key_dim);
  config.read("linear_attention.conv_kernel", {"linear_conv_kernel_dim"}, linear.conv_kernel);
  if (read_layer_words(config, "layer_types", {{"full_attention", '*'}, {"linear_attention", 'G'}},
                       model.layer_pattern))
    return;
  int interval = 4;
  config.read("layer_pattern", {"full_attention_interval"}, interval);
  if (interval < 2 || interval > model.num_layers) {
    config.error("full_attention_interval", "is out of range (allowed: 2 to num_hidden_layers)");
    return;
  }
  model.layer_pattern = std::string(static_cast<std::size_t>(interval - 1), 'G') + '*';
}

void read_qwen3_5(ConfigReader& config, Model& model) {
  read_qwen3(config, model);
  read_gated_delta_nets(config, model);
}

/// Qwen3-Next and Qwen3.5 with experts in every layer; these have no dense width.
void read_qwen3_next(ConfigReader& config, Model& model) {
  read_sizes(config, model);
  model.activation = gated_activation(config);
  config.read("num_query_groups", {"num_key_value_heads"}, model.num_query_groups);
  config.read("head_dim", {"head_dim"}, model.head_dim);
  config.read("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  model.qkv_bias = model.attention_output_bias = config.flag("attention_bias", false);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.qk_norm = true;
  read_gated_delta_nets(config, model);
  read_qwen_experts(config, model);
  config.read("moe.shared_ffn_hidden", {"shared_expert_intermediate_size"}, model.moe->shared_ffn_hidden);
  model.moe->shared_expert_gate = model.moe->shared_ffn_hidden > 0;
}

/// Single blocks: the pattern's letters are those of Megatron-LM. No positions; an MLP of two matrices with squared ReLU.
void read_nemotron_h(ConfigReader& config, Model& model) {
  read_sizes(config, model);
  model.activation = Activation::relu;
  model.position = Position::none;
  config.read("num_query_groups", {"num_key_value_heads"}, model.num_query_groups);
  config.read("head_dim", {"head_dim", "attention_head_dim"}, model.head_dim);
  config.read("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  config.read("layer_pattern", {"hybrid_override_pattern"}, model.layer_pattern);
  if (model.layer_pattern.empty() &&
      !read_layer_words(config, "layers_block_type", {{"mamba", 'M'}, {"attention", '*'}, {"mlp", '-'}, {"moe", 'E'}},
                        model.layer_pattern))
    config.error("hybrid_override_pattern", "is missing");
  LinearAttention& linear = model.linear_attention.emplace();
  config.require("linear_attention.heads", {"mamba_num_heads"}, linear.heads);
  config.require("linear_attention.head_dim", {"mamba_head_dim"}, linear.head_dim);
  config.require("linear_attention.key_heads", {"n_groups"}, linear.key_heads);
  config.require("linear_attention.key_dim", {"ssm_state_size"}, linear.key_dim);
  config.read("linear_attention.conv_kernel", {"conv_kernel"}, linear.conv_kernel);
  config.read("linear_attention.chunk_size", {"chunk_size"}, linear.chunk_size);
  const auto only = [&](const char* key, bool allowed) {
    if (config.flag(key, allowed) != allowed)
      config.error(key, fmt::format("is not supported (allowed: {})", allowed ? "true" : "false"));
  };
  only("use_bias", false);
  only("use_conv_bias", true);
  only("attention_bias", false);
  only("mlp_bias", false);
  if (const std::string act = config.word("mlp_hidden_act"); !act.empty() && act != "relu2")
    config.error("mlp_hidden_act", "is not supported (allowed: relu2)");
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  if (model.layer_pattern.find('E') == std::string::npos) return;
  if (!config.present({"moe_latent_size"}).empty())
    config.error("moe_latent_size", "is not supported: experts on latent vectors are not modelled (allowed: null)");
  MixtureOfExperts& moe = model.moe.emplace();
  config.require("moe.experts", {"n_routed_experts"}, moe.experts);
  config.require("moe.topk", {"num_experts_per_tok"}, moe.topk);
  config.require("moe.ffn_hidden", {"moe_intermediate_size"}, moe.ffn_hidden);
  config.read("moe.shared_ffn_hidden", {"moe_shared_expert_intermediate_size"}, moe.shared_ffn_hidden);
}

/// Kimi delta attention, with latent attention in the layers that the config lists (numbered from 1).
void read_kimi_linear(ConfigReader& config, Model& model) {
  read_llama(config, model);
  read_latent_attention(config, model);
  model.head_dim = 0;
  model.num_query_groups = 0;
  if (config.flag("mla_use_nope", false)) model.position = Position::none;
  // Kimi K3 has the same model_type.
  for (const char* key : {"routed_expert_hidden_size", "attn_res_block_size"})
    if (!config.present({key}).empty()) config.error(key, "is not modelled (allowed: null)");
  if (config.flag("mla_use_output_gate", false))
    config.error("mla_use_output_gate", "is not modelled (allowed: false)");
  LinearAttention& linear = model.linear_attention.emplace();
  if (std::optional<ObjectReader> object = config.object("linear_attn_config")) {
    std::vector<int> attends;
    object->get("num_heads", linear.heads);
    object->get("head_dim", linear.head_dim);
    object->get("short_conv_kernel_size", linear.conv_kernel);
    object->get("full_attn_layers", attends);
    bool full_rank = false;
    if (object->get("use_full_rank_gate", full_rank) && full_rank)
      object->error("use_full_rank_gate", "is not modelled (allowed: false)");
    if (model.num_layers < 1 || model.num_layers > 1 << 12) return;  // the check of the model says so
    model.layer_pattern = std::string(static_cast<std::size_t>(model.num_layers), 'K');
    for (const int layer : attends) {
      if (layer < 1 || layer > model.num_layers)
        return object->error("full_attn_layers", "names a layer that is not there (allowed: 1 to num_hidden_layers)");
      model.layer_pattern[static_cast<std::size_t>(layer - 1)] = '*';
    }
  }
  MixtureOfExperts& moe = model.moe.emplace();
  config.require("moe.experts", {"num_experts"}, moe.experts);
  config.require("moe.topk", {"num_experts_per_token"}, moe.topk);
  config.require("moe.ffn_hidden", {"moe_intermediate_size"}, moe.ffn_hidden);
  config.read("moe.leading_dense_layers", {"first_k_dense_replace"}, moe.leading_dense_layers);
  config.read("moe.layer_interval", {"moe_layer_freq"}, moe.layer_interval);
  read_shared_experts(config, "num_shared_experts", moe);
  moe.router_bias = true;
}

struct Family {
  std::string_view model_type;
  void (*read)(ConfigReader&, Model&);
};

constexpr std::array kFamilies{
    Family{"baichuan", read_baichuan},
    Family{"bloom", read_bloom},
    Family{"deepseek_v2", read_deepseek},
    Family{"deepseek_v3", read_deepseek},
    Family{"deepseek_v32", read_deepseek_v32},
    Family{"gemma", read_gemma},
    Family{"glm4_moe", read_glm4_moe},
    Family{"gpt2", read_gpt2},
    Family{"gpt_neox", read_gpt_neox},
    Family{"gpt_oss", read_gpt_oss},
    Family{"kimi_k2", read_deepseek},
    Family{"kimi_linear", read_kimi_linear},
    Family{"llama", read_llama},
    Family{"llama4_text", read_llama4},
    Family{"ministral3", read_mistral},
    Family{"mistral", read_mistral},
    Family{"mixtral", read_mixtral},
    Family{"nemotron", read_nemotron},
    Family{"nemotron_h", read_nemotron_h},
    Family{"phi3", read_mistral},
    Family{"qwen2", read_qwen2},
    Family{"qwen2_5_vl_text", read_qwen2},
    Family{"qwen2_moe", read_qwen2_moe},
    Family{"qwen3", read_qwen3},
    Family{"qwen3_5_moe_text", read_qwen3_next},
    Family{"qwen3_5_text", read_qwen3_5},
    Family{"qwen3_moe", read_qwen3_moe},
    Family{"qwen3_next", read_qwen3_next},
    Family{"qwen3_vl_moe_text", read_qwen3_moe},
    Family{"qwen3_vl_text", read_qwen3},
    Family{"smollm3", read_llama},
};

/// Families that are known, and what of them a Model cannot express. A count of parameters or operations without it is wrong.
struct UnmodelledFamily {
  std::string_view model_type;
  std::string_view part;
};
constexpr std::string_view kSandwichNorms = "norms after attention and MLP besides those before";
constexpr std::string_view kWideNorms = "norms over all heads of query and key together";
constexpr std::string_view kIndexer = "indexers that choose the keys of each query";
constexpr std::string_view kLinear = "layers of linear attention";
constexpr std::string_view kMamba = "layers of Mamba";
constexpr std::array kUnmodelled{
    UnmodelledFamily{"bamba", kMamba},
    UnmodelledFamily{"gemma2", kSandwichNorms},
    UnmodelledFamily{"gemma3", kSandwichNorms},
    UnmodelledFamily{"gemma3_text", kSandwichNorms},
    UnmodelledFamily{"gemma3n_text", kSandwichNorms},
    UnmodelledFamily{"glm4", kSandwichNorms},
    UnmodelledFamily{"glm_moe_dsa", kIndexer},
    UnmodelledFamily{"minimax", kLinear},
    UnmodelledFamily{"minimax_m2", kWideNorms},
    UnmodelledFamily{"olmo2", kWideNorms},
    UnmodelledFamily{"olmo3", kWideNorms},
    UnmodelledFamily{"olmoe", kWideNorms},
};

std::string family_names() {
  std::string names;
  for (const Family& family : kFamilies) names += fmt::format("{}{}", names.empty() ? "" : " ", family.model_type);
  return names;
}

const Family* find_family(const std::string& model_type) {
  const auto* family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                    [&](const Family& candidate) { return candidate.model_type == model_type; });
  return family == kFamilies.end() ? nullptr : family;
}

std::optional<Model> read_language_model(const JsonNode& node, const std::string& file, const std::string& path,
                                         std::vector<Diagnostic>& errors, std::vector<std::string>* used) {
  const std::size_t before = errors.size();
  ConfigReader config(node, file, path, errors, used);
  std::string model_type;
  config.require("model_type", {"model_type"}, model_type);
  if (errors.size() > before) return std::nullopt;
  const Family* family = find_family(model_type);
  const auto* part = std::find_if(kUnmodelled.begin(), kUnmodelled.end(),
                                  [&](const UnmodelledFamily& each) { return each.model_type == model_type; });
  if (part != kUnmodelled.end()) {
    config.error("model_type", fmt::format("has {}, which are not modelled (allowed: {})", part->part, family_names()));
    return std::nullopt;
  }
  if (family == nullptr) {
    config.error("model_type", fmt::format("is unknown (allowed: {})", family_names()));
    return std::nullopt;
  }
  Model model;
  family->read(config, model);
  if (errors.size() > before) return std::nullopt;
  Result<Model> valid = validated(std::move(model));
  if (valid) return std::move(*valid);
  for (const Diagnostic& invalid : valid.error().diagnostics) config.report(invalid);
  return std::nullopt;
}

}  // namespace

bool is_hugging_face(const JsonNode& node) {
  return node.find("model_type") != nullptr || node.find("architectures") != nullptr ||
         node.find("text_config") != nullptr;
}

std::optional<Model> read_hugging_face(const JsonNode& node, const std::string& file, const std::string& path,
                                       std::vector<Diagnostic>& errors, std::vector<std::string>* used) {
  const JsonNode* text = node.find("text_config");
  if (text == nullptr) return read_language_model(node, file, path, errors, used);
  // The language model of llama4 is a llama4_text, also where it does not say so.
  if (const JsonNode* family = node.find("model_type");
      text->find("model_type") == nullptr && family != nullptr && family->kind == JsonNode::Kind::string) {
    JsonNode whole = node;
    JsonNode named = *family;
    named.string += "_text";
    const auto inner = std::ranges::find(whole.members, "text_config", &JsonMember::key);
    inner->value.members.push_back({"model_type", std::move(named)});
    return read_hugging_face(whole, file, path, errors, used);
  }
  ObjectReader outer(node, file, path, errors);
  std::optional<Model> model = read_language_model(*text, file, outer.dotted("text_config"), errors, used);
  if (model && text->find("tie_word_embeddings") == nullptr) outer.get("tie_word_embeddings", model->tied_embeddings);
  return model;
}

}  // namespace tracecast
