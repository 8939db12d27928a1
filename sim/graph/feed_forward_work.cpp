#include <algorithm>

#include "sim/graph/layer_writer.hpp"
#include "sim/plan/activations.hpp"

namespace tracecast {
namespace {

// The framework's operators one after the other: activation, product.
constexpr Moved kUnfusedGate{10, 18};

}  // namespace

Linear LayerWriter::fc1(std::int64_t width) const {
  return tuned({"fc1", model_.hidden_size, gamma() * width / t_, MatrixSplit::column, precision_of(LinearPart::mlp)},
               "fc1");
}

Linear LayerWriter::fc2(std::int64_t width) const {
  if (gathers_layers())
    return tuned({"fc2", width, model_.hidden_size / t_, MatrixSplit::column, precision_of(LinearPart::mlp)}, "fc2");
  return tuned({"fc2", width / t_, model_.hidden_size, MatrixSplit::row, precision_of(LinearPart::mlp)}, "fc2");
}

void LayerWriter::activation(Pass pass, std::int64_t elements) {
  const bool unfused = training_.unfused_elementwise && model_.gated();
  const Moved moved = unfused ? kUnfusedGate : Moved{(gamma() + 1) * element_, (2 * gamma() + 1) * element_};
  elementwise(OperatorKind::activation, pass, model_.gated() ? "swiglu" : "gelu", elements,
              pass == Pass::forward ? moved.forward : moved.backward);
}

void LayerWriter::dense_forward() {
  const std::int64_t width = model_.ffn_hidden_size;
  norm_forward();
  gather_sequence();
  linear_forward(fc1(width));
  gather_result(gamma() * width);
  activation(Pass::forward, tokens_ * activated(width));
  linear_forward(fc2(width));
  finish_block();
  residual_forward();
}

void LayerWriter::dense_backward(BackwardPart part) {
  const std::int64_t width = model_.ffn_hidden_size;
  residual_backward(part);
  gather_sequence();
  row_backward(fc2(width), part);
  if (part != BackwardPart::weight_gradients) activation(Pass::backward, tokens_ * activated(width));
  column_backward(fc1(width), part);
  norm_backward(part);
}

void LayerWriter::half_forward(Linear linear) {
  linear.out = std::max<std::int64_t>(1, linear.out / 2);
  linear_forward(linear);
}

void LayerWriter::selected_operators(bool moe_layer) {
  norm_forward();
  for (const Linear& linear : attention_inputs()) half_forward(linear);
  qk_norm(Pass::forward);
  rope(Pass::forward);
  half_forward(attention_output());
  norm_forward();
  if (moe_layer) return;
  half_forward(fc1(model_.ffn_hidden_size));
  activation(Pass::forward, tokens_ * model_.ffn_hidden_size / t_);
  half_forward(fc2(model_.ffn_hidden_size));
}

void LayerWriter::repeated_modules(bool moe_layer) {
  if (repeats(training_, RecomputeModule::norm)) {
    norm_forward();
    norm_forward();
  }
  if (repeats(training_, RecomputeModule::mla_up) && model_.latent_attention) {
    for (const Linear& linear : attention_inputs())
      if (linear.split == MatrixSplit::column) linear_forward(linear);
    rope(Pass::forward);
  }
  if (moe_layer && repeats(training_, RecomputeModule::moe)) return expert_block();
  if (!repeats(training_, RecomputeModule::activation)) return;
  if (!moe_layer) return activation(Pass::forward, tokens_ * activated(model_.ffn_hidden_size));
  activation(Pass::forward, expert_tokens() * expert_width());
  activation(Pass::forward, tokens_ * moe().shared_ffn_hidden / t_);
}

}  // namespace tracecast
