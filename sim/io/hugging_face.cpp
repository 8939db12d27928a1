#include "sim/io/hugging_face.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/io/hugging_face_config.hpp"
#include "sim/io/hugging_face_hybrids.hpp"
#include "sim/io/hugging_face_parts.hpp"

namespace tracecast {
namespace {

void read_windowed(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  config.read("sliding_window", {"sliding_window"}, model.sliding_window);
}

/// Eight groups unless the file says otherwise (MistralConfig, MixtralConfig, Ministral3Config); null is as many as heads.
void default_to_eight_groups(const HuggingFaceConfig& config, Model& model) {
  if (!config.has("num_key_value_heads")) model.num_query_groups = 8;
}

void read_mistral(HuggingFaceConfig& config, Model& model) {
  default_to_eight_groups(config, model);
  if (!config.has("sliding_window")) model.sliding_window = 4096;
  read_windowed(config, model);
}

void read_ministral3(HuggingFaceConfig& config, Model& model) {
  default_to_eight_groups(config, model);
  if (!config.has("head_dim")) model.head_dim = 128;
  read_windowed(config, model);
}

/// Baichuan 13B has no max_position_embeddings: it uses ALiBi.
void read_baichuan(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  if (config.present({"max_position_embeddings"}).empty()) model.position = Position::alibi;
}

/// One width for every expert, given as the MLP's own.
void read_wide_experts(HuggingFaceConfig& config, Model& model) {
  read_experts(config, model, {"num_local_experts"}, {"num_experts_per_tok", "experts_per_token"},
               {"intermediate_size"});
}

void read_mixtral(HuggingFaceConfig& config, Model& model) {
  default_to_eight_groups(config, model);
  read_windowed(config, model);
  read_wide_experts(config, model);
}

/// Which layers attend globally, as "every n-th". `narrow`: the word for others
void read_layer_types(HuggingFaceConfig& config, Model& model, std::string_view narrow) {
  if (model.sliding_window == 0) return;
  const auto letters = layer_letters(config, model, "layer_types", {{"full_attention", '*'}, {narrow, 's'}});
  if (letters) model.global_layer_interval = every_nth(config, "layer_types", *letters, '*', "full_attention");
}

void read_gpt_oss(HuggingFaceConfig& config, Model& model) {
  read_windowed(config, model);
  read_wide_experts(config, model);
  model.attention_sinks = model.yarn = true;
  model.moe->router_bias = model.moe->expert_bias = model.moe->clamped_activation = true;
  if (model.sliding_window > 0) model.global_layer_interval = 2;
  read_layer_types(config, model, "sliding_attention");
}

/// Heads of 128 unless the file says otherwise (Qwen3Config, Qwen3VLTextConfig).
void read_dense_qwen3(HuggingFaceConfig& config, Model& model) {
  if (!config.has("head_dim")) model.head_dim = 128;
  read_qwen3(config, model);
}

void read_qwen2_moe(HuggingFaceConfig& config, Model& model) {
  read_qwen2(config, model);
  read_qwen_experts(config, model);
  read_qwen_shared_expert(config, model);
}

void read_qwen3_moe(HuggingFaceConfig& config, Model& model) {
  read_qwen3(config, model);
  read_qwen_experts(config, model);
}

void read_deepseek_experts(HuggingFaceConfig& config, Model& model) {
  MixtureOfExperts& moe = read_experts(config, model, {"n_routed_experts"});
  config.read("moe.leading_dense_layers", {"first_k_dense_replace"}, moe.leading_dense_layers);
  config.read("moe.routing_groups", {"n_group"}, moe.routing_groups);
  config.read("moe.routing_group_limit", {"topk_group"}, moe.routing_group_limit);
  read_shared_experts(config, "n_shared_experts", moe);
  int interval = 1;
  config.read("moe.layer_interval", {"moe_layer_freq"}, interval);
  if (interval != 1) config.error("moe_layer_freq", "is not supported (allowed: 1)");
}

void read_deepseek(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  read_latent_attention(config, model);
  if (config.present({"n_routed_experts"}).empty()) return;
  read_deepseek_experts(config, model);
  // The load-balancing bias of each expert.
  model.moe->router_bias = config.word("topk_method") == "noaux_tc";
}

/// DeepSeek-V3 with an indexer.
void read_deepseek_v32(HuggingFaceConfig& config, Model& model) {
  read_deepseek(config, model);
  SparseAttention& sparse = model.sparse_attention.emplace();
  config.require("sparse_attention.topk", {"index_topk"}, sparse.topk);
  config.require("sparse_attention.index_heads", {"index_n_heads"}, sparse.index_heads);
  config.require("sparse_attention.index_dim", {"index_head_dim"}, sparse.index_dim);
}

/// GLM 4.5 to 4.7: grouped-query attention with DeepSeek's experts. The output projection has no bias.
void read_glm4_moe(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  model.attention_output_bias = false;
  model.qk_norm = config.flag("use_qk_norm", false);
  read_deepseek_experts(config, model);
  model.moe->router_bias = true;
}

/// Llama 4: experts in every n-th layer beside an expert that all tokens pass; dense layers have a width of their own. Chunks of
/// attention are taken as a sliding window of their length, which is exact for sequences up to a chunk, and every n-th layer
/// attends globally.
/// Layers with experts: a list of their numbers from 0, else every n-th.
void read_moe_layers(HuggingFaceConfig& config, MixtureOfExperts& moe, const Model& model) {
  config.read("moe.layer_interval", {"interleave_moe_layer_step"}, moe.layer_interval);
  const JsonNode* list = config.list("moe_layers");
  if (list == nullptr || list->items.empty()) return;
  std::optional<std::string> letters = every_layer(model, '-');
  if (!letters) return;
  for (const JsonNode& item : list->items) {
    if (item.kind != JsonNode::Kind::integer || item.integer < 0 || item.integer >= model.num_layers)
      return config.error("moe_layers", "names a layer that is not there (allowed: 0 to num_hidden_layers - 1)");
    (*letters)[static_cast<std::size_t>(item.integer)] = 'E';
  }
  moe.layer_interval = every_nth(config, "moe_layers", *letters, 'E', "experts");
}

/// Layers without rotary positions attend to the whole sequence, the others to a chunk.
void read_chunked_layers(HuggingFaceConfig& config, Model& model) {
  config.read("sliding_window", {"attention_chunk_size"}, model.sliding_window);
  if (model.sliding_window == 0) return;
  model.chunked_attention = true;
  model.global_layer_interval = 4;
  config.read("global_layer_interval", {"no_rope_layer_interval"}, model.global_layer_interval);
  if (const auto letters = layer_letters(config, model, "no_rope_layers", {{"0", '*'}, {"1", 's'}}))
    model.global_layer_interval = every_nth(config, "no_rope_layers", *letters, '*', "0");
  read_layer_types(config, model, "chunked_attention");
}

void read_llama4(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  MixtureOfExperts& moe = model.moe.emplace();
  moe.ffn_hidden = moe.shared_ffn_hidden = model.ffn_hidden_size;
  config.require("ffn_hidden_size", {"intermediate_size_mlp"}, model.ffn_hidden_size);
  config.require("moe.experts", {"num_local_experts"}, moe.experts);
  config.require("moe.topk", {"num_experts_per_tok"}, moe.topk);
  read_moe_layers(config, moe, model);
  read_chunked_layers(config, model);
}

/// Tied by default, unlike Llama. Layers without positions multiply as much.
void read_smollm3(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
}

void read_gemma(HuggingFaceConfig& config, Model& model) {
  read_llama(config, model);
  model.activation = Activation::geglu;
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
}

/// LayerNorm with bias, an MLP of two matrices with squared ReLU; no other biases.
void read_nemotron(HuggingFaceConfig& config, Model& model) {
  read_sizes(config, model);
  model.activation = Activation::relu;
  model.norm = Norm::layer_norm;
  model.norm_bias = true;
  read_layer_sizes(config, model);
  read_biases(config, model);
}

/// Biases everywhere, LayerNorm, MLP without gate.
void set_gpt(Model& model) {
  model.activation = Activation::gelu;
  model.norm = Norm::layer_norm;
  model.norm_bias = model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
}

void set_four_times_as_wide(Model& model) {
  constexpr std::int64_t kMaxHidden = 1 << 30;  // larger ones are rejected later
  model.ffn_hidden_size = 4 * std::clamp<std::int64_t>(model.hidden_size, 0, kMaxHidden);
}

void read_gpt2(HuggingFaceConfig& config, Model& model) {
  read_sizes(config, model);
  set_gpt(model);
  model.position = Position::learned;
  config.require("max_position_embeddings", {"n_positions", "n_ctx"}, model.max_position_embeddings);
  if (!config.read("ffn_hidden_size", {"n_inner"}, model.ffn_hidden_size)) set_four_times_as_wide(model);
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  model.dropout = 0.1;
  config.read("dropout", {"resid_pdrop"}, model.dropout);
}

void read_gpt_neox(HuggingFaceConfig& config, Model& model) {
  read_sizes(config, model);
  set_gpt(model);
  config.require("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  config.read("max_position_embeddings", {"max_position_embeddings"}, model.max_position_embeddings);
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  model.qkv_bias = model.attention_output_bias = config.flag("attention_bias", true);
  model.parallel_residual = config.flag("use_parallel_residual", true);
  config.read("dropout", {"hidden_dropout"}, model.dropout);
}

void read_bloom(HuggingFaceConfig& config, Model& model) {
  read_sizes(config, model);
  set_gpt(model);
  set_four_times_as_wide(model);
  model.position = Position::alibi;
  model.embedding_norm = true;
  model.tied_embeddings = config.flag("tie_word_embeddings", true);
  config.read("dropout", {"hidden_dropout"}, model.dropout);
}

struct Family {
  std::string_view model_type;
  void (*read)(HuggingFaceConfig&, Model&);
};

constexpr Family kFamilies[] = {
    {"baichuan", read_baichuan},
    {"bloom", read_bloom},
    {"deepseek_v2", read_deepseek},
    {"deepseek_v3", read_deepseek},
    {"deepseek_v32", read_deepseek_v32},
    {"gemma", read_gemma},
    {"glm4_moe", read_glm4_moe},
    {"gpt2", read_gpt2},
    {"gpt_neox", read_gpt_neox},
    {"gpt_oss", read_gpt_oss},
    {"kimi_k2", read_deepseek},
    {"kimi_linear", read_kimi_linear},
    {"llama", read_llama},
    {"llama4_text", read_llama4},
    {"ministral3", read_ministral3},
    {"mistral", read_mistral},
    {"mixtral", read_mixtral},
    {"nemotron", read_nemotron},
    {"nemotron_h", read_nemotron_h},
    {"phi3", read_windowed},
    {"qwen2", read_qwen2},
    {"qwen2_5_vl_text", read_qwen2},
    {"qwen2_moe", read_qwen2_moe},
    {"qwen3", read_dense_qwen3},
    {"qwen3_5_moe_text", read_qwen3_next},
    {"qwen3_5_text", read_qwen3_5},
    {"qwen3_moe", read_qwen3_moe},
    {"qwen3_next", read_qwen3_next},
    {"qwen3_vl_moe_text", read_qwen3_moe},
    {"qwen3_vl_text", read_dense_qwen3},
    {"smollm3", read_smollm3},
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
constexpr UnmodelledFamily kUnmodelled[] = {
    {"bamba", kMamba},
    {"gemma2", kSandwichNorms},
    {"gemma3", kSandwichNorms},
    {"gemma3_text", kSandwichNorms},
    {"gemma3n_text", kSandwichNorms},
    {"glm4", kSandwichNorms},
    {"glm_moe_dsa", kIndexer},
    {"minimax", kLinear},
    {"minimax_m2", kWideNorms},
    {"olmo2", kWideNorms},
    {"olmo3", kWideNorms},
    {"olmoe", kWideNorms},
};

std::string family_names() {
  std::string names;
  for (const Family& family : kFamilies) names += fmt::format("{}{}", names.empty() ? "" : " ", family.model_type);
  return names;
}

const Family* find_family(const std::string& model_type) {
  const auto* family = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return family == std::end(kFamilies) ? nullptr : family;
}

std::optional<Model> read_language_model(const JsonNode& node, const std::string& file, const std::string& path,
                                         std::vector<Diagnostic>& errors, std::vector<std::string>* used) {
  const std::size_t before = errors.size();
  HuggingFaceConfig config(node, file, path, errors, used);
  std::string model_type;
  config.require("model_type", {"model_type"}, model_type);
  if (errors.size() > before) return std::nullopt;
  const Family* family = find_family(model_type);
  const auto* part = std::ranges::find(kUnmodelled, model_type, &UnmodelledFamily::model_type);
  if (part != std::end(kUnmodelled)) {
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
