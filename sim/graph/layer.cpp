#include "sim/graph/layer.hpp"

#include <utility>
#include <vector>

#include "sim/graph/attention.hpp"
#include "sim/graph/feed_forward.hpp"
#include "sim/graph/linear_attention.hpp"
#include "sim/graph/mixture_of_experts.hpp"
#include "sim/graph/model_ends.hpp"
#include "sim/graph/norm.hpp"
#include "sim/graph/op_writer.hpp"
#include "sim/graph/recomputation.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/fine_tuning.hpp"

namespace tracecast {
namespace {

constexpr int kNoLayer = -1;  ///< both ends of the model

/// Megatron-Core's scopes: a delta net is the attention of a transformer layer, Mamba-2 a layer of its own.
GraphModule module_of(const LayerShape& s) {
  return s.model.mixer(s.layer) == Mixer::mamba2 ? GraphModule::mamba : GraphModule::attn;
}

void mixer_forward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  if (s.model.mixer(s.layer) == Mixer::none) return;
  writer.capture(module_of(s), [&] {
    s.model.mixes_linearly(s.layer) ? linear_attention_forward(writer) : attention_forward(writer);
  });
}

void mixer_backward(OpWriter& writer, BackwardPart part, bool recompute_core) {
  const LayerShape& s = writer.shape;
  if (s.model.mixer(s.layer) == Mixer::none) return;
  writer.capture(module_of(s), [&] {
    s.model.mixes_linearly(s.layer) ? linear_attention_backward(writer, part)
                                    : attention_backward(writer, part, recompute_core);
  });
}

void write_forward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  mixer_forward(writer);
  if (s.model.has_feed_forward(s.layer)) s.model.is_moe_layer(s.layer) ? moe_forward(writer) : dense_forward(writer);
}

/// Forward work that the backward repeats first, before its own.
WorkList repeated_work(const LayerShape& shape, bool all) {
  OpWriter writer(shape, true);
  if (all) write_forward(writer);
  if (shape.training.recompute == Recompute::selective_op)
    recompute_selected_operators(writer);
  else if (!all)
    recompute_modules(writer);
  return writer.take();
}

/// All but routed experts.
std::vector<Linear> linears(const LayerShape& shape) {
  std::vector<Linear> list;
  const auto add = [&](std::vector<Linear> more) {
    for (Linear& linear : more) list.push_back(std::move(linear));
  };
  if (shape.model.mixes_linearly(shape.layer)) {
    add(linear_attention_inputs(shape));
    list.push_back(linear_attention_output(shape));
  } else if (shape.model.mixer(shape.layer) == Mixer::attention) {
    add(attention_inputs(shape));
    list.push_back(attention_output(shape));
    add(cross_attention_linears(shape));
  }
  if (!shape.model.has_feed_forward(shape.layer)) return list;
  if (shape.model.is_moe_layer(shape.layer)) {
    add(moe_linears(shape));
    return list;
  }
  const std::int64_t width = shape.model.ffn_hidden_size;
  list.push_back(fc1(shape, width));
  list.push_back(fc2(shape, width));
  return list;
}

}  // namespace

LayerWork::LayerWork(const Model& model, const Plan& plan, int expert_nodes, bool one_table)
    : model_(model), plan_(plan), expert_nodes_(expert_nodes), one_table_(one_table) {}

LayerShape LayerWork::shape(int layer) const { return {model_, plan_, layer, expert_nodes_, one_table_}; }

std::string LayerWork::kind(int layer) const {
  std::string name = model_.is_moe_layer(layer) ? "m" : "d";
  name += model_.letter(layer);
  if (model_.window(layer) > 0) name += 'w';
  if (layer < model_.encoder_layers) name += 'e';
  if (begins_decoder(layer)) name += 'b';
  if (!trains_layer(model_, plan_.training, layer)) name += 'f';
  for (const LinearPart part : {LinearPart::attention, LinearPart::mlp, LinearPart::experts})
    name += is_narrow(linear_precision(model_, plan_.training, layer, part)) ? 'n' : '.';
  return name;
}

/// The decoder begins with the encoder's last norm and its own embedding.
bool LayerWork::begins_decoder(int layer) const { return model_.encoder_layers > 0 && layer == model_.encoder_layers; }

WorkList LayerWork::forward(int layer) const {
  OpWriter writer(shape(layer));
  if (begins_decoder(layer)) {
    if (model_.final_norm) norm_forward(writer);
    tracecast::embedding_forward(writer);
  }
  write_forward(writer);
  return writer.take();
}

WorkList LayerWork::backward(int layer, BackwardPart part, bool recompute_all) const {
  OpWriter writer(shape(layer));
  if (!trains_layer(model_, plan_.training, layer)) return writer.take();
  const bool inputs = has_input_gradients(part);
  if (inputs) writer.append(repeated_work(writer.shape, recompute_all));
  if (model_.has_feed_forward(layer))
    model_.is_moe_layer(layer) ? moe_backward(writer, part) : dense_backward(writer, part);
  const bool recompute_core = !recompute_all && plan_.training.recompute == Recompute::selective;
  mixer_backward(writer, part, recompute_core);
  if (begins_decoder(layer)) {
    // The table's gradient is complete with the encoder's part of it, at the beginning of the model.
    if (inputs && trains_embedding(plan_.training)) embedding_gradient(writer);
    if (model_.final_norm) norm_backward(writer, part);
  }
  return writer.take();
}

WorkList LayerWork::embedding_forward() const {
  OpWriter writer(shape(kNoLayer));
  tracecast::embedding_forward(writer);
  return writer.take();
}

WorkList LayerWork::embedding_backward() const {
  OpWriter writer(shape(kNoLayer));
  tracecast::embedding_backward(writer);
  return writer.take();
}

WorkList LayerWork::head_forward() const {
  OpWriter writer(shape(kNoLayer));
  tracecast::head_forward(writer);
  for (int layer = model_.layers(); layer < model_.layers() + model_.mtp_layers; ++layer) {
    OpWriter prediction(shape(layer));
    prediction_input_forward(prediction);
    write_forward(prediction);
    tracecast::head_forward(prediction, true);
    writer.append(prediction.take());
  }
  return writer.take();
}

WorkList LayerWork::head_backward(BackwardPart part) const {
  OpWriter writer(shape(kNoLayer));
  const bool recompute_all = plan_.training.recompute == Recompute::full;
  for (int layer = model_.layers() + model_.mtp_layers; layer-- > model_.layers();) {
    OpWriter prediction(shape(layer));
    tracecast::head_backward(prediction, part, true);
    prediction.append(backward(layer, part, recompute_all));
    prediction_input_backward(prediction, part);
    writer.append(prediction.take());
  }
  tracecast::head_backward(writer, part);
  if (copies_table() && has_weight_gradients(part) && trains_embedding(plan_.training))
    writer.gradients(embedding_parameters());
  return writer.take();
}

/// Multi-token prediction looks words up on the last stage, in a second table.
bool LayerWork::copies_table() const { return model_.mtp_layers > 0 && !one_table_ && !model_.tied_embeddings; }

std::int64_t LayerWork::norms_of(int layer) const {
  const int norms = layer_norms(model_, layer) + (begins_decoder(layer) && model_.final_norm ? 1 : 0);
  return norms * norm_parameters(model_);
}

RankParameters LayerWork::parameters(int layer) const {
  const LayerShape own = shape(layer);
  const bool trains = trains_layer(model_, plan_.training, layer);
  RankParameters sum;
  sum.dense = norms_of(layer);
  sum.experts = expert_parameters(layer);
  if (is_narrow(own.precision_of(LinearPart::experts))) sum.quantised_experts = sum.experts;
  if (trains && trains_weights(model_, plan_.training, layer)) {
    sum.trained = sum.dense;
    sum.trained_experts = sum.experts;
  }
  for (const Linear& linear : linears(own)) {
    sum.dense += linear.parameters();
    if (is_narrow(linear.precision)) sum.quantised += linear.in * linear.out;
    if (trains) sum.trained += linear.trained();
  }
  return sum;
}

std::int64_t LayerWork::expert_parameters(int layer) const {
  return model_.is_moe_layer(layer) ? routed_expert_parameters(shape(layer)) : 0;
}

Trained LayerWork::trained(int layer) const {
  const RankParameters own = parameters(layer);
  return {own.trained, own.trained_experts};
}

std::int64_t LayerWork::embedding_parameters() const { return table_parameters(shape(kNoLayer)); }

Trained LayerWork::trained_embedding() const {
  return {trains_embedding(plan_.training) ? embedding_parameters() : 0, 0};
}

std::int64_t LayerWork::head_parameters() const {
  std::int64_t sum = output_layer(shape(kNoLayer)).parameters() + (model_.final_norm ? norm_parameters(model_) : 0);
  for (int layer = model_.layers(); layer < model_.layers() + model_.mtp_layers; ++layer)
    sum += layer_parameters(layer) + prediction_parameters(shape(layer));
  return sum + (copies_table() ? embedding_parameters() : 0);
}

std::int64_t LayerWork::quantised_head() const {
  const Linear output = output_layer(shape(kNoLayer));
  return is_narrow(output.precision) && !output.tied ? output.in * output.out : 0;
}

std::int64_t LayerWork::head_expert_parameters() const {
  std::int64_t sum = 0;
  for (int layer = model_.layers(); layer < model_.layers() + model_.mtp_layers; ++layer)
    sum += expert_parameters(layer);
  return sum;
}

Trained LayerWork::trained_head() const {
  if (!trains_weights(model_, plan_.training, kNoLayer)) {
    Trained adapters;
    for (int layer = model_.layers(); layer < model_.layers() + model_.mtp_layers; ++layer)
      adapters.dense += trained(layer).dense;
    return adapters;
  }
  const std::int64_t experts = head_expert_parameters();
  std::int64_t dense = head_parameters() - experts;
  if (copies_table() && !trains_embedding(plan_.training)) dense -= embedding_parameters();
  const Linear output = output_layer(shape(kNoLayer));
  if (output.frozen) dense -= output.parameters();
  return {dense, experts};
}

}  // namespace tracecast
