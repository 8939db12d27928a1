#include "sim/plan/activations.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/plan/expert_routing.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/precision.hpp"

namespace tracecast {
namespace {

/// Asked for every layer; most lists are empty.
template <class Name>
bool has(const std::vector<std::string>& names, Name name) {
  return !names.empty() && std::find(names.begin(), names.end(), std::string_view(to_string(name))) != names.end();
}

bool narrows(const Training& training, NarrowActivation what) { return has(training.low_precision_activations, what); }

constexpr double kE5M6 = 12.0 / 8;  ///< bytes

/// The sizes of a layer as doubles.
struct Sizes {
  double element;  ///< bytes of an activation
  // Bytes of elements that may be kept narrower.
  double attention_operand;   ///< inputs of attention's linear layers before its core
  double projection_operand;  ///< of the one after it
  double core;                ///< queries, keys and values as they wait for attention's backward
  double mlp_operand;         ///< of the dense feed-forward's and the shared experts' first matrices
  double mlp_inner;           ///< and of their last one
  double expert_operand;      ///< of the routed experts'
  double attended;            ///< result of attention, for its own backward and for the projection
  double activated;           ///< input of the activation function
  double gate_result;         ///< of a gated one, which eager PyTorch multiplies in an operator of its own
  bool gathered;              ///< tensor ranks keep whole results
  double hidden;
  double query;   ///< a d
  double key;     ///< k d, at least one head per tensor-parallel rank
  double value;   ///< head sizes of the values, all key/value heads
  double output;  ///< what the attention hands to the projection
  double heads;
  double seq_length;
  bool dropout;
};

double element_of(const Training& training) { return static_cast<double>(wide_size(training)); }

/// Bytes of an element that a linear layer reads, as it waits for the weight gradient; none where the matrix is frozen and has no
/// adapter. `target`: its name among those that can have one (fine_tuning.hpp), null of others.
double operand_size(const Model& model, const Training& training, int layer, LinearPart part, const char* target) {
  if (training.lora_rank > 0 && (target == nullptr || !has_adapter(training, target))) return 0;
  const Precision precision = linear_precision(model, training, layer, part);
  return narrows(training, NarrowActivation::linear_inputs) && is_narrow(precision) ? quantised_size(precision)
                                                                                    : element_of(training);
}

void add_narrow_sizes(Sizes& s, const Model& model, const Training& training, int layer) {
  s.attention_operand = operand_size(model, training, layer, LinearPart::attention, "qkv");
  s.projection_operand = operand_size(model, training, layer, LinearPart::attention, "proj");
  const Precision core = linear_precision(model, training, layer, LinearPart::attention);
  s.core =
      training.fp8_attention && is_narrow(core) ? quantised_size(core) * (core == Precision::mxfp8 ? 2 : 1) : s.element;
  s.mlp_operand = operand_size(model, training, layer, LinearPart::mlp, "fc1");
  s.mlp_inner = operand_size(model, training, layer, LinearPart::mlp, "fc2");
  s.expert_operand = operand_size(model, training, layer, LinearPart::experts, nullptr);
  const bool copied = s.projection_operand != s.element;
  s.attended =
      narrows(training, NarrowActivation::attention_output) ? kE5M6 : s.element + (copied ? s.projection_operand : 0);
  s.activated = narrows(training, NarrowActivation::activation_inputs) ? quantised_size(training.dtype) : s.element;
}

Sizes sizes(const Model& model, const Plan& plan, int layer) {
  Sizes s{};
  s.element = element_of(plan.training);
  s.hidden = static_cast<double>(model.hidden_size);
  s.heads = model.num_attention_heads;
  s.seq_length = static_cast<double>(plan.training.seq_length);
  s.dropout = model.dropout > 0;
  s.gate_result = plan.training.runs_chains() && model.gated() ? s.element : 0;
  s.gathered = plan.parallel.tp_split == TensorSplit::gather;
  add_narrow_sizes(s, model, plan.training, layer);
  if (model.latent_attention) {
    const LatentAttention& latent = *model.latent_attention;
    s.query = s.key = s.heads * static_cast<double>(latent.nope_dim + latent.rope_dim);
    s.value = s.output = s.heads * static_cast<double>(latent.v_dim);
  } else {
    const double dim = static_cast<double>(model.head_dim);
    s.query = s.output = s.heads * dim;
    s.key = s.value = std::max(model.num_query_groups, plan.parallel.tp) * dim;
  }
  return s;
}

/// Softmax output, dropout mask and dropped-out copy of [a, s, s], or the log-sum-exp of a fused kernel.
double core_bytes(const Plan& plan, const Sizes& s, Recompute recompute) {
  if (recompute == Recompute::selective) return 0;
  if (plan.training.flash_attention) return 4 * s.heads;
  const double per_score = s.dropout ? 2 * s.element + 1 : s.element;
  return per_score * s.heads * s.seq_length;
}

/// The compressed query and key/value before their norms, and after them `normed` bytes an element.
TokenBytes latent_vectors(const Model& model, const Sizes& s, double normed) {
  if (!model.latent_attention) return {};
  const LatentAttention& latent = *model.latent_attention;
  const double ranks = static_cast<double>(latent.q_rank + latent.kv_rank);
  return {.whole = (s.element + normed) * ranks + s.element * static_cast<double>(latent.rope_dim)};
}

/// Copies of keys and values that the context ranks have between them: heads that are exchanged for sequence go to several ranks
/// where they are fewer (graph/attention.cpp).
double key_copies(const Model& model, const Plan& plan) {
  const Parallel& p = plan.parallel;
  if (p.cp_comm_type != ContextExchange::a2a || model.latent_attention) return 1;
  const int heads = std::max(1, model.num_query_groups / p.tp);
  return static_cast<double>(p.cp * ceil_div(heads, p.cp)) / heads;
}

TokenBytes attention(const Model& model, const Plan& plan, const Sizes& s, Recompute recompute) {
  const double norm_result = repeats(plan.training, RecomputeModule::norm) ? 0 : s.attention_operand;
  TokenBytes bytes = latent_vectors(model, s, norm_result);
  const double normed = model.qk_norm ? s.query + s.key : 0;  // inputs of the norms over query and key
  double expanded = key_copies(model, plan) * (s.key + s.value);
  double core = s.core;
  if (model.sparse_attention) {
    // Queries and results of latent width in place of keys and values; the indexer's tensors and the chosen keys, 4 bytes each.
    const SparseAttention& sparse = *model.sparse_attention;
    const LatentAttention& latent = *model.latent_attention;
    expanded = s.heads * static_cast<double>(2 * latent.kv_rank + latent.rope_dim);
    core = s.element;
    const auto index = static_cast<double>((sparse.index_heads + 1) * sparse.index_dim + sparse.index_heads);
    bytes.whole += s.element * index + 4.0 * sparse.topk;
  }
  const bool projects_again = model.latent_attention && repeats(plan.training, RecomputeModule::mla_up);
  const double projected = projects_again ? 0 : core * (s.query + expanded) + s.element * normed;
  bytes.whole += (s.element + norm_result) * s.hidden + (s.dropout ? s.hidden : 0);
  bytes.split += projected + core_bytes(plan, s, recompute);
  if (model.attention_output_gate) bytes.split += s.element * (s.query + s.output);  // the gate, and attention ungated
  (s.gathered ? bytes.whole : bytes.split) += s.attended * s.output;
  return bytes;
}

/// What the kernels of linear attention read again backward: the projections, the scan's result and the normed one; with a delta
/// rule also queries, keys and values after the convolution, with keys copied to every head, the C x C matrix and fp32
/// decays. Mamba-2 repeats its convolution.   Source: docs/references.md#linear-attention
TokenBytes linear_attention(const Model& model, const Plan& plan, const Sizes& s, int layer) {
  const LinearAttention& linear = *model.linear_attention;
  const double keys = static_cast<double>(linear.keys());
  const double values = static_cast<double>(linear.values());
  const double heads = linear.heads;
  const double copied_keys = heads * static_cast<double>(linear.key_dim);
  double projected = 2 * keys + 2 * values + (model.mixer(layer) == Mixer::gated_delta_net ? 2 : 1) * heads;
  TokenBytes bytes;
  if (model.mixer(layer) == Mixer::kimi_delta) {
    projected += keys;
    bytes.whole += s.attention_operand * 2 * static_cast<double>(linear.head_dim);
  }
  if (model.mixer(layer) != Mixer::mamba2) {
    bytes.split += s.element * (2 * copied_keys + values + heads * linear.chunk_size);
    bytes.split += 4 * (model.mixer(layer) == Mixer::kimi_delta ? keys + heads : 2 * heads);
  }
  bytes.split += s.element * (projected + values) + s.projection_operand * values;
  const double norm_result = repeats(plan.training, RecomputeModule::norm) ? 0 : s.attention_operand;
  bytes.whole += (s.element + norm_result) * s.hidden + (s.dropout ? s.hidden : 0);
  return bytes;
}

TokenBytes linear_attention_weight_inputs(const Model& model, const Sizes& s, int layer) {
  const LinearAttention& linear = *model.linear_attention;
  const double low_rank = model.mixer(layer) == Mixer::kimi_delta ? 4 * static_cast<double>(linear.head_dim) : 0;
  const double decays = model.mixer(layer) == Mixer::kimi_delta ? static_cast<double>(linear.keys()) : 0;
  const double per_head = (model.mixer(layer) == Mixer::gated_delta_net ? 2.0 : 1.0) * linear.heads;
  const double widths = static_cast<double>(2 * linear.keys() + 3 * linear.values()) + per_head + decays;
  return {.split = s.attention_operand * widths, .whole = s.attention_operand * (2 * s.hidden + low_rank)};
}

TokenBytes attention_weight_inputs(const Model& model, const Sizes& s) {
  const double operand = s.attention_operand;
  TokenBytes bytes;
  double key = s.key;
  if (model.latent_attention) {
    const LatentAttention& latent = *model.latent_attention;
    bytes.whole = operand * static_cast<double>(2 * (latent.q_rank + latent.kv_rank) + latent.rope_dim);
    key = s.heads * static_cast<double>(latent.nope_dim);  // all heads share the part with a position
  }
  bytes.whole += 2 * operand * s.hidden;  // input of QKV, gradient of the projection's output
  bytes.split += operand * ((model.attention_output_gate ? 2 : 1) * s.query + key + s.value);
  (s.gathered ? bytes.whole : bytes.split) += operand * s.output;
  return bytes;
}

/// Rows that reach a rank's experts, per token of its micro-batch: the ranks that share an expert gather their tokens, of which each
/// has its part with sequence parallelism.
double expert_rows(const Model& model, const Plan& plan) {
  const Parallel& p = plan.parallel;
  const double spread = static_cast<double>(plan.expert_token_parts()) / (p.sequence_parallel ? p.tp : 1);
  return model.moe->topk * spread * plan.expert_load.fullest;
}

/// Bytes of an element of the up (and gate) results of a feed-forward, of what the second matrix reads, and of what lies between.
struct InnerSizes {
  double activated = 0;
  double operand = 0;
  double gate_result = 0;
};

double inner_bytes(const Model& model, const InnerSizes& each, std::int64_t width) {
  return ((model.gated() ? 2 : 1) * each.activated + each.operand + each.gate_result) * static_cast<double>(width);
}

/// The dense feed-forward between its two matrices.
TokenBytes dense_inner(const Model& model, const Sizes& s, const InnerSizes& each) {
  const double bytes = inner_bytes(model, each, model.ffn_hidden_size);
  if (s.gathered) return {.whole = bytes};
  return {.split = bytes};
}

/// Rows that go into the experts, and with `row_ends` 2 those that come out. `shared`, `routed`: of their inner tensors.
TokenBytes experts(const Model& model, const Plan& plan, const Sizes& s, double row_ends, const InnerSizes& shared,
                   const InnerSizes& routed) {
  const MixtureOfExperts& moe = *model.moe;
  TokenBytes bytes;
  bytes.split = inner_bytes(model, shared, moe.shared_ffn_hidden);
  bytes.local =
      expert_rows(model, plan) * (row_ends * s.expert_operand * s.hidden +
                                  inner_bytes(model, routed, moe.ffn_hidden) / plan.parallel.expert_tensor_ranks());
  return bytes;
}

/// Whether the layer has matrices outside of routed experts.
bool has_dense_feed_forward(const Model& model, int layer) {
  return !model.is_moe_layer(layer) || model.moe->shared_ffn_hidden > 0;
}

TokenBytes feed_forward(const Model& model, const Plan& plan, const Sizes& s, int layer) {
  TokenBytes bytes;
  const bool repeated = repeats(plan.training, RecomputeModule::activation);
  const bool moe_layer = model.is_moe_layer(layer);
  const RecomputeModule block = moe_layer ? RecomputeModule::shared_experts : RecomputeModule::mlp;
  const double gate_result = repeated ? 0 : s.gate_result;
  const InnerSizes kept{s.activated, repeated ? 0 : s.mlp_inner, gate_result};
  const InnerSizes inner = repeats(plan.training, block) ? InnerSizes{} : kept;
  if (moe_layer && !repeats(plan.training, RecomputeModule::moe)) {
    bytes = experts(model, plan, s, 1, inner, {s.activated, repeated ? 0 : s.expert_operand, gate_result});
    bytes.whole += 4.0 * model.moe->experts;  // router scores, fp32
  } else if (!moe_layer) {
    bytes = dense_inner(model, s, inner);
  }
  // The norm's input is the attention's when both read the same. The router reads the norm's result in 16 bit; frozen, it keeps none.
  const bool routes = moe_layer && plan.training.lora_rank == 0;
  const double norm_result = routes ? s.element : has_dense_feed_forward(model, layer) ? s.mlp_operand : 0;
  bytes.whole += (model.parallel_residual ? 0 : s.element) * s.hidden + (s.dropout ? s.hidden : 0);
  if (!repeats(plan.training, RecomputeModule::norm)) bytes.whole += norm_result * s.hidden;
  return bytes;
}

/// torchtitan's op-level option keeps the layer's input, attention's result and of its matrix multiplications the first,
/// third, fifth and seventh: queries, values, gate (or up), down. Nothing reads the last one's result, which the compiler
/// sees and eager PyTorch does not. Experts are left as they are.   Source: torchtitan, _apply_ac_to_transformer_block
TokenBytes selected_operators(const Model& model, const Plan& plan, const Sizes& s, int layer) {
  TokenBytes bytes{.split = s.element * (s.query + s.value + s.output) + core_bytes(plan, s, Recompute::none),
                   .whole = s.element * s.hidden};
  if (model.is_moe_layer(layer)) {
    bytes += feed_forward(model, plan, s, layer);
  } else {
    bytes.split += s.element * static_cast<double>(model.ffn_hidden_size);
    if (!plan.training.compiled) bytes.whole += s.element * s.hidden;
  }
  return bytes;
}

/// A x of every adapter.
double adapter_rows(const Training& training) {
  if (training.lora_rank == 0) return 0;
  double rows = 0;
  for (const auto& each : EnumNames<LoraTarget>::table)
    if (has_adapter(training, each.name)) rows += training.lora_rank;
  return rows;
}

bool attends_encoder(const Model& model, int layer) {
  return model.encoder_layers > 0 && layer >= model.encoder_layers;
}

/// DTensor multiplies what it gathered, and keeps that from the forward to the backward where it is not recomputed.
bool keeps_gathered_inputs(const Plan& plan) {
  const Parallel& p = plan.parallel;
  const Recompute recompute = plan.training.recompute;
  return p.dtensor && p.sequence_parallel && p.tp > 1 &&
         (recompute == Recompute::none || recompute == Recompute::selective);
}

/// What that adds to the norms' results of one tensor rank.
TokenBytes gathered_inputs(const Model& model, const Plan& plan, const Sizes& s, int layer) {
  const bool attention = model.mixer(layer) == Mixer::attention && s.attention_operand > 0;
  const bool feed_forward = model.has_feed_forward(layer) && !model.is_moe_layer(layer) && s.mlp_operand > 0;
  const int inputs = (attention ? 1 : 0) + (feed_forward ? 1 : 0);
  return {.local = inputs * s.element * s.hidden * (1 - 1.0 / plan.parallel.tp)};
}

double logits(const Model& model, const Plan& plan) {
  return static_cast<double>(model.vocab_size) * plan.training.loss_mask_fraction;
}

}  // namespace

CrossEntropy loss_of(const Parallel& parallel, const Training& training) {
  if (training.cross_entropy != CrossEntropy::automatic) return training.cross_entropy;
  if (training.compiled) return CrossEntropy::compiled;
  return parallel.zero_stage >= 2 || parallel.dtensor ? CrossEntropy::pytorch : CrossEntropy::vocab_parallel;
}

bool repeats(const Training& training, RecomputeModule module) { return has(training.recompute_modules, module); }

void check_low_precision_activations(PlanCheck& check, const Training& training) {
  check.names<NarrowActivation>("training.low_precision_activations", training.low_precision_activations);
  if (!training.low_precision_activations.empty() && !is_narrow(training.dtype))
    check.fault("training.low_precision_activations", training.low_precision_activations.front(),
                fmt::format("needs an 8- or 4-bit training.dtype, not {}", to_string(training.dtype)));
}

TokenBytes& TokenBytes::operator+=(const TokenBytes& other) {
  split += other.split;
  whole += other.whole;
  local += other.local;
  return *this;
}

double rank_bytes(const TokenBytes& bytes, const Plan& plan) {
  const double tp = plan.parallel.tp;
  const double whole = plan.parallel.sequence_parallel ? bytes.whole : bytes.whole * tp;
  const double tokens = static_cast<double>(plan.tokens());
  return tokens * (bytes.split + whole) / tp + tokens * bytes.local;
}

TokenBytes layer_activations(const Model& model, const Plan& plan, int layer, Recompute recompute) {
  const Sizes s = sizes(model, plan, layer);
  if (recompute == Recompute::full) return {.whole = s.element * s.hidden};
  if (recompute == Recompute::selective_op) return selected_operators(model, plan, s, layer);
  TokenBytes bytes;
  if (model.mixes_linearly(layer))
    bytes += linear_attention(model, plan, s, layer);
  else if (model.mixer(layer) == Mixer::attention)
    bytes += attention(model, plan, s, recompute);
  if (attends_encoder(model, layer)) bytes += attention(model, plan, s, recompute);
  if (model.has_feed_forward(layer)) bytes += feed_forward(model, plan, s, layer);
  if (keeps_gathered_inputs(plan)) bytes += gathered_inputs(model, plan, s, layer);
  bytes.whole += s.element * adapter_rows(plan.training);
  return bytes;
}

TokenBytes layer_weight_gradient_inputs(const Model& model, const Plan& plan, int layer) {
  const Sizes s = sizes(model, plan, layer);
  TokenBytes bytes;
  if (model.mixes_linearly(layer))
    bytes += linear_attention_weight_inputs(model, s, layer);
  else if (model.mixer(layer) == Mixer::attention)
    bytes += attention_weight_inputs(model, s);
  if (attends_encoder(model, layer)) bytes += attention_weight_inputs(model, s);
  if (!model.has_feed_forward(layer)) return bytes;
  const InnerSizes dense{s.mlp_operand, s.mlp_inner};
  if (model.is_moe_layer(layer)) {
    // Rows of the input and of the output's gradient.
    bytes += experts(model, plan, s, 2, dense, {s.expert_operand, s.expert_operand});
  } else {
    bytes += dense_inner(model, s, dense);
  }
  // No router's gradient waits.
  if (has_dense_feed_forward(model, layer)) bytes.whole += 2 * s.mlp_operand * s.hidden;
  return bytes;
}

bool is_recomputed(const Plan& plan, int layer) {
  if (plan.training.recompute != Recompute::full) return false;
  const int count = plan.training.recompute_num_layers;
  if (count == 0) return true;
  for (const Stage& stage : plan.stages) {
    const int position = layer - stage.first_layer;
    if (position >= 0 && position < stage.num_layers) return position < count;
  }
  return false;
}

TokenBytes embedding_activations(const Model& model) {
  return {.whole = model.dropout > 0 ? static_cast<double>(model.hidden_size) : 0};
}

TokenBytes head_activations(const Model& model, const Plan& plan) {
  const double hidden = element_of(plan.training) * static_cast<double>(model.hidden_size);
  const CrossEntropy loss = loss_of(plan.parallel, plan.training);
  const bool one_kernel = loss == CrossEntropy::fused || loss == CrossEntropy::compiled;
  const double kept = one_kernel ? element_of(plan.training) : 4;
  const TokenBytes head{.split = kept * logits(model, plan), .whole = (model.final_norm ? 2 : 1) * hidden};
  TokenBytes bytes = head;
  for (int layer = 0; layer < model.mtp_layers; ++layer) {
    bytes += layer_activations(model, plan, model.layers() - 1, plan.training.recompute);
    bytes += {.whole = 4 * hidden};  // inputs of the two norms, and of the projection, which is twice as wide
    bytes += head;
  }
  return bytes;
}

TokenBytes head_weight_gradient_inputs(const Model& model, const Plan& plan) {
  const double element = element_of(plan.training);
  const double hidden = element * static_cast<double>(model.hidden_size);
  const bool trained = trains_output(model, plan.training);
  const TokenBytes head{.split = trained ? element * logits(model, plan) : 0, .whole = trained ? hidden : 0};
  TokenBytes bytes = head;
  for (int layer = 0; layer < model.mtp_layers; ++layer) {
    bytes += layer_weight_gradient_inputs(model, plan, model.layers() - 1);
    bytes += {.whole = 3 * hidden};
    bytes += head;
  }
  return bytes;
}

TokenBytes loss_workspace(const Model& model, const Plan& plan) {
  const CrossEntropy loss = loss_of(plan.parallel, plan.training);
  if (loss == CrossEntropy::fused && plan.training.transformer_engine) return {};
  double bytes = element_of(plan.training);
  if (loss == CrossEntropy::pytorch) bytes = plan.parallel.tp > 1 ? 4 + 4 + 4 : 4 + 4;
  return {.split = bytes * logits(model, plan)};
}

TokenBytes stage_output(const Model& model, const Plan& plan) {
  return {.split = element_of(plan.training) * static_cast<double>(model.hidden_size)};
}

TokenBytes score_buffer(const Model& model, const Plan& plan) {
  if (!plan.training.score_buffer || plan.training.flash_attention) return {};
  return {.split =
              element_of(plan.training) * model.num_attention_heads * static_cast<double>(plan.training.seq_length)};
}

TokenBytes gathered_workspace(const Model& model, const Plan& plan) {
  const Parallel& p = plan.parallel;
  if (!p.sequence_parallel || p.tp == 1) return {};
  const int inputs = p.dtensor && !keeps_gathered_inputs(plan) ? 2 : 0;
  const int gathered = p.tp_comm_overlap && !plan.training.row_scales ? 0 : 1;
  const int passing = gathered + (p.tp_comm_overlap ? 0 : 1);
  return {.local = (inputs + passing) * element_of(plan.training) * static_cast<double>(model.hidden_size)};
}

TokenBytes gathered_keys(const Model& model, const Plan& plan) {
  const Parallel& p = plan.parallel;
  const bool unfused = !plan.training.flash_attention;  // exchanges keys in no other way
  if (p.cp == 1 || (p.cp_comm_type != ContextExchange::all_gather && !unfused)) return {};
  const double copies = 2.0 * p.cp * element_of(plan.training);
  if (model.sparse_attention) {
    const LatentAttention& latent = *model.latent_attention;
    const std::int64_t width = latent.kv_rank + latent.rope_dim + model.sparse_attention->index_dim;
    return {.local = copies * static_cast<double>(width)};
  }
  const Sizes s = sizes(model, plan, 0);
  return {.split = copies * (s.key + s.value)};
}

TokenBytes ring_buffers(const Model& model, const Plan& plan) {
  const Parallel& p = plan.parallel;
  const bool ring = p.cp > 1 && p.cp_comm_type == ContextExchange::p2p && plan.training.flash_attention;
  if (!ring || !plan.training.transformer_engine || model.sparse_attention) return {};
  const Sizes s = sizes(model, plan, 0);
  return {.split = p.cp * element_of(plan.training) * (s.key + s.value + s.output)};
}

}  // namespace tracecast
