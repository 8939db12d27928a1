#include "sim/graph/layer.hpp"

#include "sim/graph/layer_writer.hpp"

namespace tracecast {
namespace {

constexpr int kNoLayer = -1;  ///< both ends of the model

void write_forward(LayerWriter& writer, bool moe_layer) {
  writer.attention_forward();
  moe_layer ? writer.moe_forward() : writer.dense_forward();
}

}  // namespace

LayerWork::LayerWork(const Model& model, const Plan& plan, int expert_nodes)
    : model_(model), plan_(plan), expert_nodes_(expert_nodes) {}

LayerWriter LayerWork::writer_of(int layer, bool recomputed) const {
  return LayerWriter(model_, plan_, layer, expert_nodes_, recomputed);
}

std::string LayerWork::kind(int layer) const {
  std::string name = model_.is_moe_layer(layer) ? "m" : "d";
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
  LayerWriter writer = writer_of(layer);
  if (begins_decoder(layer)) {
    if (model_.final_norm) writer.norm_forward();
    writer.embedding_forward();
  }
  write_forward(writer, model_.is_moe_layer(layer));
  return writer.take();
}

WorkList LayerWork::backward(int layer, BackwardPart part, bool recompute_all) const {
  LayerWriter writer = writer_of(layer);
  if (!trains_layer(model_, plan_.training, layer)) return writer.take();
  const bool inputs = part != BackwardPart::weight_gradients;
  const bool moe_layer = model_.is_moe_layer(layer);
  if (recompute_all && inputs) {
    LayerWriter again = writer_of(layer, true);
    write_forward(again, moe_layer);
    writer.append(again.take());
  }
  if (plan_.training.recompute == Recompute::selective_op && inputs) {
    LayerWriter again = writer_of(layer, true);
    again.selected_operators(moe_layer);
    writer.append(again.take());
  }
  if (inputs && !recompute_all && plan_.training.recompute != Recompute::selective_op) {
    LayerWriter again = writer_of(layer, true);
    again.repeated_modules(moe_layer);
    writer.append(again.take());
  }
  moe_layer ? writer.moe_backward(part) : writer.dense_backward(part);
  const bool recompute_core = !recompute_all && plan_.training.recompute == Recompute::selective;
  writer.attention_backward(part, recompute_core);
  if (begins_decoder(layer)) {
    // The table's gradient is complete with the encoder's part of it, at the beginning of the model.
    if (inputs && trains_embedding(plan_.training)) writer.embedding_gradient();
    if (model_.final_norm) writer.norm_backward(part);
  }
  return writer.take();
}

WorkList LayerWork::embedding_forward() const {
  LayerWriter writer = writer_of(kNoLayer);
  writer.embedding_forward();
  return writer.take();
}

WorkList LayerWork::embedding_backward() const {
  LayerWriter writer = writer_of(kNoLayer);
  writer.embedding_backward();
  return writer.take();
}

WorkList LayerWork::head_forward() const {
  LayerWriter writer = writer_of(kNoLayer);
  writer.head_forward();
  for (int module = 0; module < model_.mtp_layers; ++module) {
    LayerWriter prediction = writer_of(model_.layers() + module);
    prediction.prediction_input_forward();
    write_forward(prediction, model_.is_moe_layer(model_.layers() + module));
    prediction.head_forward(true);
    writer.append(prediction.take());
  }
  return writer.take();
}

WorkList LayerWork::head_backward(BackwardPart part) const {
  LayerWriter writer = writer_of(kNoLayer);
  const bool recompute_all = plan_.training.recompute == Recompute::full;
  for (int module = model_.mtp_layers; module-- > 0;) {
    const int layer = model_.layers() + module;
    LayerWriter prediction = writer_of(layer);
    prediction.head_backward(part, true);
    prediction.append(backward(layer, part, recompute_all));
    prediction.prediction_input_backward(part);
    writer.append(prediction.take());
  }
  writer.head_backward(part);
  if (copies_table() && part != BackwardPart::input_gradients && trains_embedding(plan_.training))
    writer.gradients(embedding_parameters());
  return writer.take();
}

/// Multi-token prediction looks words up on the last stage, in a table of its own.
bool LayerWork::copies_table() const {
  return model_.mtp_layers > 0 && plan_.parallel.pp > 1 && !model_.tied_embeddings;
}

std::vector<Linear> LayerWork::linears(int layer) const {
  const LayerWriter writer = writer_of(layer);
  std::vector<Linear> list = writer.attention_inputs();
  list.push_back(writer.attention_output());
  if (writer.attends_encoder()) {
    list.push_back(writer.cross_query());
    list.push_back(writer.cross_key_value());
    list.push_back(writer.cross_output());
  }
  if (!model_.is_moe_layer(layer)) {
    list.push_back(writer.fc1(model_.ffn_hidden_size));
    list.push_back(writer.fc2(model_.ffn_hidden_size));
    return list;
  }
  list.push_back(writer.router());
  if (writer.moe().shared_ffn_hidden == 0) return list;
  list.push_back(writer.shared_fc1());
  list.push_back(writer.shared_fc2());
  return list;
}

std::int64_t LayerWork::layer_norms(int layer) const {
  const LayerWriter writer = writer_of(layer);
  const int norms = (writer.attends_encoder() ? 3 : 2) + (begins_decoder(layer) && model_.final_norm ? 1 : 0);
  return norms * writer.norm_parameters();
}

std::int64_t LayerWork::layer_parameters(int layer) const {
  std::int64_t sum = layer_norms(layer) + expert_parameters(layer);
  for (const Linear& linear : linears(layer)) sum += linear.parameters();
  return sum;
}

std::int64_t LayerWork::expert_parameters(int layer) const {
  return model_.is_moe_layer(layer) ? writer_of(layer).expert_parameters() : 0;
}

std::int64_t LayerWork::quantised_parameters(int layer, bool experts) const {
  const LayerWriter writer = writer_of(layer);
  if (experts) return is_narrow(writer.precision_of(LinearPart::experts)) ? expert_parameters(layer) : 0;
  std::int64_t sum = 0;
  for (const Linear& linear : linears(layer))
    if (is_narrow(linear.precision)) sum += linear.in * linear.out;
  return sum;
}

Trained LayerWork::trained(int layer) const {
  Trained sum;
  if (!trains_layer(model_, plan_.training, layer)) return sum;
  for (const Linear& linear : linears(layer)) sum.dense += linear.trained();
  if (!trains_weights(model_, plan_.training, layer)) return sum;
  sum.dense += layer_norms(layer);
  sum.experts = expert_parameters(layer);
  return sum;
}

std::int64_t LayerWork::embedding_parameters() const { return writer_of(kNoLayer).vocab() * model_.hidden_size; }

Trained LayerWork::trained_embedding() const {
  return {trains_embedding(plan_.training) ? embedding_parameters() : 0, 0};
}

std::int64_t LayerWork::head_parameters() const {
  const LayerWriter writer = writer_of(kNoLayer);
  std::int64_t sum = writer.output_layer().parameters() + (model_.final_norm ? writer.norm_parameters() : 0);
  for (int layer = model_.layers(); layer < model_.layers() + model_.mtp_layers; ++layer)
    sum += layer_parameters(layer) + writer_of(layer).prediction_parameters();
  return sum + (copies_table() ? embedding_parameters() : 0);
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
  const bool frozen_copy = copies_table() && !trains_embedding(plan_.training);
  return {head_parameters() - experts - (frozen_copy ? embedding_parameters() : 0), experts};
}

}  // namespace tracecast
