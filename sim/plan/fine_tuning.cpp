#include "sim/plan/fine_tuning.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/model/parameters.hpp"

namespace tracecast {
namespace {

/// A matrix that can have adapters, all ranks together.
struct Target {
  enum class Split { column, row, replicated };
  using enum Split;

  const char* name;
  std::int64_t in;
  std::int64_t out;
  Split split;
};

void add_attention(std::vector<Target>& targets, const Model& model) {
  const std::int64_t h = model.hidden_size;
  const std::int64_t heads = model.num_attention_heads;
  if (!model.latent_attention) {
    const std::int64_t queries = (model.attention_output_gate ? 2 : 1) * heads;
    const std::int64_t width = (queries + std::int64_t{2} * model.num_query_groups) * model.head_dim;
    targets.push_back({"qkv", h, width, Target::column});
    targets.push_back({"proj", heads * model.head_dim, h, Target::row});
    return;
  }
  const LatentAttention& latent = *model.latent_attention;
  const std::int64_t query = heads * (latent.nope_dim + latent.rope_dim);
  if (latent.q_rank > 0) {
    targets.push_back({"qkv", h, latent.q_rank, Target::replicated});
    targets.push_back({"qkv", latent.q_rank, query, Target::column});
  } else {
    targets.push_back({"qkv", h, query, Target::column});
  }
  targets.push_back({"qkv", h, latent.kv_rank + latent.rope_dim, Target::replicated});
  targets.push_back({"qkv", latent.kv_rank, heads * (latent.nope_dim + latent.v_dim), Target::column});
  targets.push_back({"proj", heads * latent.v_dim, h, Target::row});
}

std::vector<Target> targets_of(const Model& model, int layer) {
  std::vector<Target> targets;
  add_attention(targets, model);
  if (model.encoder_layers > 0 && layer >= model.encoder_layers) {
    const std::int64_t width = model.num_attention_heads * model.head_dim;
    targets.push_back({"qkv", model.hidden_size, width, Target::column});
    targets.push_back(
        {"qkv", model.hidden_size, std::int64_t{2} * model.num_query_groups * model.head_dim, Target::column});
    targets.push_back({"proj", width, model.hidden_size, Target::row});
  }
  const std::int64_t ffn = model.is_moe_layer(layer) ? model.moe->shared_ffn_hidden : model.ffn_hidden_size;
  if (ffn == 0) return targets;
  targets.push_back({"fc1", model.hidden_size, (model.gated() ? 2 : 1) * ffn, Target::column});
  targets.push_back({"fc2", ffn, model.hidden_size, Target::row});
  return targets;
}

int all_layers(const Model& model) { return model.layers() + model.mtp_layers; }

}  // namespace

bool has_adapter(const Training& training, const std::string& target) {
  if (training.lora_rank == 0) return false;
  const std::vector<std::string>& targets = training.lora_targets;
  return targets.empty() || std::find(targets.begin(), targets.end(), target) != targets.end();
}

int frozen_layers(const Model& model, const Training& training) {
  return static_cast<int>(std::floor(training.frozen_fraction * model.layers()));
}

bool trains_layer(const Model& model, const Training& training, int layer) {
  return layer >= frozen_layers(model, training);
}

bool trains_weights(const Model& model, const Training& training, int layer) {
  return training.lora_rank == 0 && (layer < 0 || trains_layer(model, training, layer));
}

bool trains_embedding(const Training& training) { return training.lora_rank == 0 && training.frozen_fraction == 0; }

bool trains_output(const Model& model, const Training& training) {
  return model.tied_embeddings ? trains_embedding(training) : training.lora_rank == 0;
}

std::int64_t adapter_parameters(const Model& model, const Training& training, int layer, int tp) {
  if (training.lora_rank == 0 || !trains_layer(model, training, layer)) return 0;
  std::int64_t sum = 0;
  for (const Target& target : targets_of(model, layer)) {
    if (!has_adapter(training, target.name)) continue;
    const std::int64_t in = target.split == Target::row ? target.in / tp : target.in;
    // Key/value heads that are fewer than the tensor ranks are kept by several of them.
    const std::int64_t out = target.split == Target::column ? ceil_div(target.out, tp) : target.out;
    sum += training.lora_rank * (in + out);
  }
  return sum;
}

std::int64_t adapter_parameters(const Model& model, const Training& training) {
  std::int64_t sum = 0;
  for (int layer = 0; layer < all_layers(model); ++layer) sum += adapter_parameters(model, training, layer, 1);
  return sum;
}

std::int64_t trainable_parameters(const Model& model, const Training& training) {
  if (training.lora_rank > 0) return adapter_parameters(model, training);
  std::int64_t trained = parameter_count(model).total();
  if (!trains_embedding(training)) trained -= sum(embedding_parameter_groups(model));
  for (int layer = 0; layer < frozen_layers(model, training); ++layer) trained -= layer_parameters(model, layer);
  return trained;
}

double packed_flops_per_token(const Model& model, const Training& training, const PackedSteps& packed,
                              FlopsConvention convention) {
  Training each = training;
  double sum = 0;
  std::int64_t tokens = 0;
  const auto add = [&](std::int64_t length, std::int64_t count) {
    each.seq_length = length;
    sum += static_cast<double>(length * count) * training_flops_per_token(model, each, convention);
    tokens += length * count;
  };
  for (const auto& [length, count] : packed.lengths) add(length, count);
  add(1, packed.tokens() - tokens);
  return sum / static_cast<double>(packed.tokens());
}

double training_flops_per_token(const Model& model, const Training& training, FlopsConvention convention) {
  const double all = model_flops_per_token(model, training.seq_length, convention);
  const double head =
      static_cast<double>(model.hidden_size) * static_cast<double>(model.vocab_size) * (1 + model.mtp_layers);
  double saved = 6 * (1 - training.loss_mask_fraction) * head;
  const int frozen = frozen_layers(model, training);
  for (int layer = 0; layer < model.layers(); ++layer) {
    if (layer >= frozen && training.lora_rank == 0) break;
    const LayerFlops forward = layer_forward_flops(model, layer, training.seq_length, convention);
    saved += layer < frozen ? 2 * (forward.linear + forward.attention) : forward.linear;
  }
  if (!trains_output(model, training)) saved += 2 * training.loss_mask_fraction * head;
  if (training.lora_rank > 0 && model.mtp_layers > 0)
    saved += model.mtp_layers * prediction_forward_flops(model, training.seq_length, convention).linear;
  return all - saved + 6 * static_cast<double>(adapter_parameters(model, training));
}

double expert_flops_per_token(const Model& model, const Training& training) {
  if (!model.moe) return 0;
  const double chosen = static_cast<double>(model.moe->topk) / model.moe->experts;
  double sum = 0;
  for (int layer = 0; layer < all_layers(model); ++layer) {
    const int passes = !trains_layer(model, training, layer) ? 1 : training.lora_rank > 0 ? 2 : 3;
    for (const ParameterGroup& group : layer_parameter_groups(model, model.as_layer(layer)))
      if (group.part == Part::expert && group.matrix) sum += 2 * passes * chosen * static_cast<double>(group.count);
  }
  return sum;
}

}  // namespace tracecast
