#include "sim/model/model.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/model/parameters.hpp"

namespace tracecast {
namespace {

/// Largest sizes that are believed; together they keep every parameter count below 2^63.
constexpr std::int64_t kMaxLayers = 1 << 12;
constexpr std::int64_t kMaxHeads = 1 << 14;
constexpr std::int64_t kMaxHeadDim = 1 << 12;
constexpr std::int64_t kMaxHidden = 1 << 18;
constexpr std::int64_t kMaxFfn = 1 << 21;
constexpr std::int64_t kMaxExpertFfn = 1 << 18;
constexpr std::int64_t kMaxExperts = 1 << 12;
constexpr std::int64_t kMaxVocab = 1 << 26;
constexpr std::int64_t kMaxPositions = 1 << 30;

/// Collects the errors of one model.
class ModelCheck {
 public:
  void between(const std::string& key, std::int64_t value, std::int64_t minimum, std::int64_t maximum) {
    if (value >= minimum && value <= maximum) return;
    fault(key, fmt::to_string(value), fmt::format("must be between {} and {}", minimum, maximum));
  }
  void fault(const std::string& key, std::string value, std::string message) {
    diagnostics_.push_back({"", 0, "model." + key, std::move(value), std::move(message)});
  }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

void check_sizes(ModelCheck& check, const Model& model) {
  check.between("num_layers", model.num_layers, 1, kMaxLayers);
  check.between("encoder_layers", model.encoder_layers, 0, kMaxLayers);
  check.between("mtp_layers", model.mtp_layers, 0, kMaxLayers);
  check.between("hidden_size", model.hidden_size, 1, kMaxHidden);
  check.between("num_attention_heads", model.num_attention_heads, 1, kMaxHeads);
  check.between("ffn_hidden_size", model.ffn_hidden_size, model.moe || !model.layer_pattern.empty() ? 0 : 1, kMaxFfn);
  check.between("vocab_size", model.vocab_size, 1, kMaxVocab);
  check.between("max_position_embeddings", model.max_position_embeddings, model.position == Position::learned ? 1 : 0,
                kMaxPositions);
  check.between("sliding_window", model.sliding_window, 0, kMaxPositions);
  check.between("global_layer_interval", model.global_layer_interval, 0, kMaxLayers);
  if (!(model.dropout >= 0 && model.dropout < 1)) {
    check.fault("dropout", fmt::to_string(model.dropout), "must be between 0 and 1");
  }
}

void check_heads(ModelCheck& check, const Model& model) {
  if (model.attention_output_gate && (model.latent_attention || model.encoder_layers > 0)) {
    check.fault("attention_output_gate", "true", "is not for latent attention and encoder-decoder models");
  }
  check.between("head_dim", model.head_dim, 1, kMaxHeadDim);
  check.between("num_query_groups", model.num_query_groups, 1, kMaxHeads);
  if (model.num_query_groups > 0 && model.num_attention_heads % model.num_query_groups != 0) {
    check.fault("num_query_groups", fmt::to_string(model.num_query_groups),
                fmt::format("does not divide model.num_attention_heads = {}", model.num_attention_heads));
  }
}

void check_latent_attention(ModelCheck& check, const LatentAttention& latent) {
  check.between("latent_attention.q_rank", latent.q_rank, 0, kMaxHidden);
  check.between("latent_attention.kv_rank", latent.kv_rank, 1, kMaxHidden);
  check.between("latent_attention.nope_dim", latent.nope_dim, 1, kMaxHeadDim);
  check.between("latent_attention.rope_dim", latent.rope_dim, 0, kMaxHeadDim);
  check.between("latent_attention.v_dim", latent.v_dim, 1, kMaxHeadDim);
}

constexpr std::string_view kLinearLetters = "MGK";

void check_linear_attention(ModelCheck& check, const LinearAttention& linear) {
  check.between("linear_attention.heads", linear.heads, 1, kMaxHeads);
  check.between("linear_attention.head_dim", linear.head_dim, 1, kMaxHeadDim);
  check.between("linear_attention.key_heads", linear.key_heads, 1, kMaxHeads);
  check.between("linear_attention.key_dim", linear.key_dim, 1, kMaxHeadDim);
  check.between("linear_attention.conv_kernel", linear.conv_kernel, 1, kMaxHeadDim);
  check.between("linear_attention.chunk_size", linear.chunk_size, 1, kMaxHeadDim);
  if (linear.heads > 0 && linear.key_heads > 0 && linear.heads % linear.key_heads != 0) {
    check.fault("linear_attention.key_heads", fmt::to_string(linear.key_heads),
                fmt::format("does not divide model.linear_attention.heads = {}", linear.heads));
  }
}

void check_sparse_attention(ModelCheck& check, const Model& model) {
  const SparseAttention& sparse = *model.sparse_attention;
  check.between("sparse_attention.topk", sparse.topk, 1, kMaxPositions);
  check.between("sparse_attention.index_heads", sparse.index_heads, 1, kMaxHeads);
  check.between("sparse_attention.index_dim", sparse.index_dim, 1, kMaxHeadDim);
  if (!model.latent_attention || model.latent_attention->q_rank == 0)
    check.fault("sparse_attention", "", "needs model.latent_attention with a q_rank, which the indexer reads");
  if (model.sliding_window > 0) check.fault("sparse_attention", "", "cannot be combined with model.sliding_window");
}

/// What the letters of the pattern need, and what has no place beside them.
void check_pattern(ModelCheck& check, const Model& model) {
  const std::string& pattern = model.layer_pattern;
  const auto fault = [&](std::string message) { check.fault("layer_pattern", pattern, std::move(message)); };
  const auto needs = [&](std::string_view letters, bool given, const char* key) {
    if (pattern.find_first_of(letters) != std::string::npos && !given) fault(fmt::format("needs model.{}", key));
  };
  if (pattern.find_first_not_of("*MGK-E") != std::string::npos) return fault("has other letters than * M G K - E");
  if (static_cast<std::int64_t>(pattern.size()) > model.num_layers)
    fault(fmt::format("has {} letters for model.num_layers = {}", pattern.size(), model.num_layers));
  const auto kinds = std::count_if(kLinearLetters.begin(), kLinearLetters.end(),
                                   [&](char letter) { return pattern.find(letter) != std::string::npos; });
  if (kinds > 1) fault("has more than one of M, G and K");
  if (!model.linear_attention && kinds > 0) fault("needs model.linear_attention");
  if (model.linear_attention && kinds == 0)
    check.fault("linear_attention", "", "needs layers of M, G or K in model.layer_pattern");
  needs("E", model.moe.has_value(), "moe");
  needs("-", model.ffn_hidden_size > 0, "ffn_hidden_size");
  if (pattern.empty()) return;
  if (model.encoder_layers > 0) fault("is not for encoder-decoder models");
  if (model.parallel_residual) fault("cannot be combined with model.parallel_residual");
  if (model.single_blocks() && model.mtp_layers > 0)
    fault("has single blocks, without prediction layers (mtp_layers: 0)");
  const bool rules = model.moe && (model.moe->leading_dense_layers > 0 || model.moe->layer_interval > 1);
  if (model.single_blocks() && rules)
    fault("names the layers with experts itself (allowed: no other rule in model.moe)");
}

void check_experts(ModelCheck& check, const Model& model) {
  const MixtureOfExperts& moe = *model.moe;
  check.between("moe.experts", moe.experts, 1, kMaxExperts);
  check.between("moe.topk", moe.topk, 1, std::clamp<std::int64_t>(moe.experts, 1, kMaxExperts));
  check.between("moe.ffn_hidden", moe.ffn_hidden, 1, kMaxExpertFfn);
  check.between("moe.shared_ffn_hidden", moe.shared_ffn_hidden, 0, kMaxFfn);
  check.between("moe.leading_dense_layers", moe.leading_dense_layers, 0, std::clamp(model.num_layers, 0, 1 << 12));
  check.between("moe.layer_interval", moe.layer_interval, 1, kMaxLayers);
  check.between("moe.routing_groups", moe.routing_groups, 0, kMaxExperts);
  check.between("moe.routing_group_limit", moe.routing_group_limit, 0, std::max(moe.routing_groups, 0));
  if (moe.routing_groups > 0 && moe.experts % moe.routing_groups != 0) {
    check.fault("moe.routing_groups", fmt::to_string(moe.routing_groups),
                fmt::format("does not divide model.moe.experts = {}", moe.experts));
  }
  const bool dense_layers = moe.leading_dense_layers > 0 || moe.layer_interval > 1;
  if (dense_layers && model.ffn_hidden_size == 0) {
    check.fault("ffn_hidden_size", "0", "is needed by the layers without experts");
  }
  if (model.encoder_layers > 0) {
    check.fault("moe", "", "cannot be combined with model.encoder_layers");
  }
}

/// Keys that a query attends to on average, at most `window` of them (0: all); `masked`: those after it are cut off by the causal mask.
double attended_keys(std::int64_t seq_length, std::int64_t window, bool masked, bool chunked = false) {
  const auto sequence = static_cast<double>(seq_length);
  const double keys = window > 0 ? std::min(static_cast<double>(window), sequence) : sequence;
  if (masked && chunked) return keys / 2;
  return masked ? keys - keys * keys / (2 * sequence) : keys;
}

/// Sum of the head sizes of query-key and score-value products, all heads.
double score_width(const Model& model) {
  if (!model.latent_attention) return 2.0 * model.num_attention_heads * static_cast<double>(model.head_dim);
  const LatentAttention& latent = *model.latent_attention;
  return model.num_attention_heads * static_cast<double>(latent.nope_dim + latent.rope_dim + latent.v_dim);
}

/// FLOPs of one token in the recurrence of a layer, as Megatron-LM counts them.
double recurrence_flops(const Model& model, int layer) {
  const LinearAttention& linear = *model.linear_attention;
  const double state = static_cast<double>(linear.values() * linear.key_dim);
  return (model.mixer(layer) == Mixer::mamba2 ? 7 : 8) * state;
}

/// Weights that one token is multiplied with; of the experts, topk.
double multiplied_weights(const Model& model, const std::vector<ParameterGroup>& groups) {
  double weights = 0;
  for (const ParameterGroup& group : groups) {
    if (!group.matrix) continue;
    const double share = group.part == Part::expert ? static_cast<double>(model.moe->topk) / model.moe->experts : 1;
    weights += share * static_cast<double>(group.count);
  }
  return weights;
}

void add(ParameterCount& count, const std::vector<ParameterGroup>& groups) {
  count.embedding += sum(groups, Part::embedding);
  count.attention += sum(groups, Part::attention);
  count.mlp += sum(groups, Part::mlp);
  count.router += sum(groups, Part::router);
  count.experts += sum(groups, Part::expert);
  count.norms += sum(groups, Part::norm);
  count.output += sum(groups, Part::output);
}

}  // namespace

char Model::letter(int layer) const {
  if (layer_pattern.empty()) return '*';
  const int known = layer < 0 || layer >= num_layers ? num_layers - 1 : layer;
  return layer_pattern[static_cast<std::size_t>(known) % layer_pattern.size()];
}

Mixer Model::mixer(int layer) const {
  switch (letter(layer)) {
    case 'M':
      return Mixer::mamba2;
    case 'G':
      return Mixer::gated_delta_net;
    case 'K':
      return Mixer::kimi_delta;
    case '*':
      return Mixer::attention;
    default:
      return Mixer::none;
  }
}

bool Model::mixes_linearly(int layer) const {
  return linear_attention && mixer(layer) != Mixer::attention && mixer(layer) != Mixer::none;
}

bool Model::has_feed_forward(int layer) const {
  if (single_blocks()) return mixer(layer) == Mixer::none;
  return layer_pattern.empty() || moe || ffn_hidden_size > 0;
}

int Model::as_layer(int layer) const { return std::min(layer, layers() - 1); }

bool Model::is_moe_layer(int layer) const {
  layer = as_layer(layer);
  if (single_blocks()) return letter(layer) == 'E';
  if (!moe || layer < moe->leading_dense_layers) return false;
  return (layer - moe->leading_dense_layers) % moe->layer_interval == moe->layer_interval - 1;
}

std::int64_t Model::window(int layer) const {
  const bool global = global_layer_interval > 0 && (as_layer(layer) + 1) % global_layer_interval == 0;
  return layer < 0 || global ? 0 : sliding_window;
}

ParameterCount parameter_count(const Model& model) {
  ParameterCount count;
  add(count, embedding_parameter_groups(model));
  for (int layer = 0; layer < model.layers(); ++layer) add(count, layer_parameter_groups(model, layer));
  add(count, head_parameter_groups(model));
  if (model.mtp_layers > 0) count.mtp = model.mtp_layers * sum(mtp_parameter_groups(model));
  return count;
}

std::int64_t active_parameters(const Model& model) {
  const std::int64_t total = parameter_count(model).total();
  if (!model.moe) return total;
  // Every group of experts is a multiple of their number.
  std::int64_t experts = 0;
  for (int layer = 0; layer < model.layers(); ++layer) {
    experts += sum(layer_parameter_groups(model, layer), Part::expert);
  }
  if (model.mtp_layers > 0) experts += model.mtp_layers * sum(mtp_parameter_groups(model), Part::expert);
  return total - experts / model.moe->experts * (model.moe->experts - model.moe->topk);
}

std::int64_t layer_parameters(const Model& model, int layer) { return sum(layer_parameter_groups(model, layer)); }

Result<Model> validated(Model model) {
  if (model.num_query_groups == 0) model.num_query_groups = model.num_attention_heads;
  if (model.linear_attention) {
    LinearAttention& linear = *model.linear_attention;
    if (linear.key_heads == 0) linear.key_heads = linear.heads;
    if (linear.key_dim == 0) linear.key_dim = linear.head_dim;
  }
  const bool divisible = model.num_attention_heads > 0 && model.hidden_size % model.num_attention_heads == 0;
  ModelCheck check;
  if (model.latent_attention) {
    const LatentAttention& latent = *model.latent_attention;
    check_latent_attention(check, latent);
    if (model.head_dim == 0 && check.diagnostics().empty()) model.head_dim = latent.nope_dim + latent.rope_dim;
  } else if (model.head_dim == 0 && !divisible && model.num_attention_heads > 0 && model.hidden_size > 0) {
    check.fault(
        "num_attention_heads", fmt::to_string(model.num_attention_heads),
        fmt::format("does not divide model.hidden_size = {}, and model.head_dim is not given", model.hidden_size));
    model.head_dim = 1;
  }
  if (model.head_dim == 0 && divisible) model.head_dim = model.hidden_size / model.num_attention_heads;
  check_sizes(check, model);
  if (check.diagnostics().empty()) check_heads(check, model);
  if (model.linear_attention) check_linear_attention(check, *model.linear_attention);
  if (model.sparse_attention) check_sparse_attention(check, model);
  if (model.chunked_attention && model.sliding_window == 0)
    check.fault("chunked_attention", "true", "needs model.sliding_window, the length of a chunk");
  check_pattern(check, model);
  if (model.moe) check_experts(check, model);
  if (!check.diagnostics().empty()) return tl::unexpected(Error{check.diagnostics()});
  return model;
}

LayerFlops layer_forward_flops(const Model& model, int layer, std::int64_t seq_length, FlopsConvention convention) {
  const double linear = 2 * multiplied_weights(model, layer_parameter_groups(model, layer));
  if (model.mixer(layer) == Mixer::none) return {linear, 0};
  if (model.mixes_linearly(layer)) return {linear, recurrence_flops(model, layer)};
  const bool encoder = layer < model.encoder_layers;
  const bool masked = convention == FlopsConvention::model_causal && !encoder;
  double keys = attended_keys(seq_length, model.window(layer), masked, model.chunked_attention);
  if (model.encoder_layers > 0 && !encoder) keys += static_cast<double>(seq_length);  // cross-attention sees all
  if (!model.sparse_attention) return {linear, 2 * keys * score_width(model)};
  const SparseAttention& sparse = *model.sparse_attention;
  const double scores = 2 * keys * sparse.index_heads * static_cast<double>(sparse.index_dim);
  return {linear, scores + 2 * attended_keys(seq_length, sparse.topk, masked) * score_width(model)};
}

LayerFlops prediction_forward_flops(const Model& model, std::int64_t seq_length, FlopsConvention convention) {
  return {2 * multiplied_weights(model, mtp_parameter_groups(model)),
          layer_forward_flops(model, model.layers() - 1, seq_length, convention).attention};
}

double model_flops_per_token(const Model& model, std::int64_t seq_length, FlopsConvention convention) {
  const double head = 2.0 * static_cast<double>(model.hidden_size) * static_cast<double>(model.vocab_size);
  double forward = head;
  for (int layer = 0; layer < model.layers(); ++layer) {
    const LayerFlops layer_flops = layer_forward_flops(model, layer, seq_length, convention);
    forward += layer_flops.linear + layer_flops.attention;
  }
  if (model.mtp_layers > 0) {
    const LayerFlops prediction = prediction_forward_flops(model, seq_length, convention);
    forward += model.mtp_layers * (prediction.linear + prediction.attention + head);
  }
  return 3 * forward;
}

}  // namespace tracecast
