#include "sim/graph/layer.hpp"

#include "sim/graph/layer_writer.hpp"

namespace tracecast {
namespace {

constexpr int kNoLayer = -1;  ///< both ends of the model

std::int64_t linear_parameters(const std::vector<Linear>& list) {
  std::int64_t sum = 0;
  for (const Linear& linear : list) sum += linear.parameters();
  return sum;
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
  for (const LinearPart part : {LinearPart::attention, LinearPart::mlp, LinearPart::experts})
    name += is_narrow(linear_precision(model_, plan_.training, layer, part)) ? 'n' : '.';
  return name;
}

WorkList LayerWork::forward(int layer) const {
  LayerWriter writer = writer_of(layer);
  writer.attention_forward();
  model_.is_moe_layer(layer) ? writer.moe_forward() : writer.dense_forward();
  return writer.take();
}

WorkList LayerWork::backward(int layer, BackwardPart part, bool recompute_all) const {
  LayerWriter writer = writer_of(layer);
  const bool inputs = part != BackwardPart::weight_gradients;
  if (recompute_all && inputs) {
    LayerWriter again = writer_of(layer, true);
    again.attention_forward();
    model_.is_moe_layer(layer) ? again.moe_forward() : again.dense_forward();
    writer.append(again.take());
  }
  if (plan_.training.recompute == Recompute::selective_op && inputs) {
    LayerWriter again = writer_of(layer, true);
    again.selected_operators(model_.is_moe_layer(layer));
    writer.append(again.take());
  }
  model_.is_moe_layer(layer) ? writer.moe_backward(part) : writer.dense_backward(part);
  const bool recompute_core = !recompute_all && plan_.training.recompute == Recompute::selective;
  writer.attention_backward(part, recompute_core);
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
  return writer.take();
}

WorkList LayerWork::head_backward(BackwardPart part) const {
  LayerWriter writer = writer_of(kNoLayer);
  writer.head_backward(part);
  return writer.take();
}

std::int64_t LayerWork::layer_parameters(int layer) const {
  const LayerWriter writer = writer_of(layer);
  std::int64_t sum = linear_parameters(writer.attention_inputs()) + writer.attention_output().parameters() +
                     2 * writer.norm_parameters();
  if (!model_.is_moe_layer(layer))
    return sum + writer.fc1(model_.ffn_hidden_size).parameters() + writer.fc2(model_.ffn_hidden_size).parameters();
  sum += writer.router().parameters() + writer.expert_parameters();
  if (writer.moe().shared_ffn_hidden > 0) sum += writer.shared_fc1().parameters() + writer.shared_fc2().parameters();
  return sum;
}

std::int64_t LayerWork::quantised_parameters(int layer, bool experts) const {
  const LayerWriter writer = writer_of(layer);
  const bool moe_layer = model_.is_moe_layer(layer);
  const auto narrow = [&](LinearPart part) { return is_narrow(writer.precision_of(part)); };
  if (experts) return moe_layer && narrow(LinearPart::experts) ? writer.expert_parameters() : 0;
  std::int64_t sum = 0;
  if (narrow(LinearPart::attention))
    sum += linear_parameters(writer.attention_inputs()) + writer.attention_output().parameters();
  const std::int64_t width = moe_layer ? writer.moe().shared_ffn_hidden : model_.ffn_hidden_size;
  if (narrow(LinearPart::mlp)) sum += writer.fc1(width).parameters() + writer.fc2(width).parameters();
  return sum;
}

std::int64_t LayerWork::embedding_parameters() const { return writer_of(kNoLayer).vocab() * model_.hidden_size; }

std::int64_t LayerWork::head_parameters() const {
  const LayerWriter writer = writer_of(kNoLayer);
  return writer.output_layer().parameters() + (model_.final_norm ? writer.norm_parameters() : 0);
}

}  // namespace tracecast
