#include "sim/io/hugging_face_hybrids.hpp"

#include <optional>
#include <string>

#include "sim/io/hugging_face_parts.hpp"

namespace tracecast {
namespace {

/// The file's keys of the sizes of linear attention.
struct LinearAttentionKeys {
  const char* heads;
  const char* head_dim;
  const char* key_heads;
  const char* key_dim;
  const char* conv_kernel;
};

LinearAttention& read_linear_attention(HuggingFaceConfig& config, Model& model, const LinearAttentionKeys& keys) {
  LinearAttention& linear = model.linear_attention.emplace();
  config.require("linear_attention.heads", {keys.heads}, linear.heads);
  config.require("linear_attention.head_dim", {keys.head_dim}, linear.head_dim);
  config.require("linear_attention.key_heads", {keys.key_heads}, linear.key_heads);
  config.require("linear_attention.key_dim", {keys.key_dim}, linear.key_dim);
  config.read("linear_attention.conv_kernel", {keys.conv_kernel}, linear.conv_kernel);
  return linear;
}

/// Gated delta nets with gated attention in every fourth layer: the list of layer types, or the interval.
void read_gated_delta_nets(HuggingFaceConfig& config, Model& model) {
  model.attention_output_gate = true;
  read_linear_attention(config, model,
                        {.heads = "linear_num_value_heads",
                         .head_dim = "linear_value_head_dim",
                         .key_heads = "linear_num_key_heads",
                         .key_dim = "linear_key_head_dim",
                         .conv_kernel = "linear_conv_kernel_dim"});
  if (const auto letters =
          layer_letters(config, model, "layer_types", {{"full_attention", '*'}, {"linear_attention", 'G'}})) {
    model.layer_pattern = *letters;
    return;
  }
  int interval = 4;
  config.read("layer_pattern", {"full_attention_interval"}, interval);
  if (interval < 2 || interval > model.num_layers) {
    config.error("full_attention_interval", "is out of range (allowed: 2 to num_hidden_layers)");
    return;
  }
  model.layer_pattern = std::string(static_cast<std::size_t>(interval - 1), 'G') + '*';
}

}  // namespace

void read_qwen3_5(HuggingFaceConfig& config, Model& model) {
  read_qwen3(config, model);
  read_gated_delta_nets(config, model);
}

void read_qwen3_next(HuggingFaceConfig& config, Model& model) {
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
  read_qwen_shared_expert(config, model);
}

void read_nemotron_h(HuggingFaceConfig& config, Model& model) {
  read_sizes(config, model);
  model.activation = Activation::relu;
  model.position = Position::none;
  config.read("num_query_groups", {"num_key_value_heads"}, model.num_query_groups);
  config.read("head_dim", {"head_dim", "attention_head_dim"}, model.head_dim);
  config.read("ffn_hidden_size", {"intermediate_size"}, model.ffn_hidden_size);
  config.read("layer_pattern", {"hybrid_override_pattern"}, model.layer_pattern);
  if (!model.layer_pattern.empty())
    check_layers(config, model, "hybrid_override_pattern", model.layer_pattern.size());
  else if (const auto letters = layer_letters(config, model, "layers_block_type",
                                              {{"mamba", 'M'}, {"attention", '*'}, {"mlp", '-'}, {"moe", 'E'}}))
    model.layer_pattern = *letters;
  else
    config.error("hybrid_override_pattern", "is missing");
  LinearAttention& linear = read_linear_attention(config, model,
                                                  {.heads = "mamba_num_heads",
                                                   .head_dim = "mamba_head_dim",
                                                   .key_heads = "n_groups",
                                                   .key_dim = "ssm_state_size",
                                                   .conv_kernel = "conv_kernel"});
  config.read("linear_attention.chunk_size", {"chunk_size"}, linear.chunk_size);
  config.require_flag("use_bias", false);
  config.require_flag("use_conv_bias", true);
  config.require_flag("attention_bias", false);
  config.require_flag("mlp_bias", false);
  if (const std::string act = config.word("mlp_hidden_act"); !act.empty() && act != "relu2")
    config.error("mlp_hidden_act", "is not supported (allowed: relu2)");
  model.tied_embeddings = config.flag("tie_word_embeddings", false);
  if (model.layer_pattern.find('E') == std::string::npos) return;
  if (!config.present({"moe_latent_size"}).empty())
    config.error("moe_latent_size", "is not supported: experts on latent vectors are not modelled (allowed: null)");
  MixtureOfExperts& moe = read_experts(config, model, {"n_routed_experts"});
  config.read("moe.shared_ffn_hidden", {"moe_shared_expert_intermediate_size"}, moe.shared_ffn_hidden);
}

void read_kimi_linear(HuggingFaceConfig& config, Model& model) {
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
    const std::optional<std::string> letters = every_layer(model, 'K');
    if (!letters) return;
    model.layer_pattern = *letters;
    for (const int layer : attends) {
      if (layer < 1 || layer > model.num_layers)
        return object->error("full_attn_layers", "names a layer that is not there (allowed: 1 to num_hidden_layers)");
      model.layer_pattern[static_cast<std::size_t>(layer - 1)] = '*';
    }
  }
  MixtureOfExperts& moe = read_experts(config, model, {"num_experts"}, {"num_experts_per_token"});
  config.read("moe.leading_dense_layers", {"first_k_dense_replace"}, moe.leading_dense_layers);
  config.read("moe.layer_interval", {"moe_layer_freq"}, moe.layer_interval);
  read_shared_experts(config, "num_shared_experts", moe);
  moe.router_bias = true;
}

}  // namespace tracecast
