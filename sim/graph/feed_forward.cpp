#include "sim/graph/feed_forward.hpp"

#include "sim/graph/norm.hpp"

namespace tracecast {
namespace {

// Separate operators of the framework: activation, product.
constexpr Moved kUnfusedGate{10, 18};

/// A layer that is recomputed is complete for its backward when its activation is.
bool ends_at_activation(const OpWriter& writer) {
  const LayerShape& s = writer.shape;
  const Training& training = s.training;
  if (!writer.recomputed() || !training.recompute_early_stop || s.model.dropout > 0) return false;
  return training.compiled || !(training.transformer_engine || is_narrow(s.precision_of(LinearPart::mlp)));
}

}  // namespace

int gate_factor(const Model& model) { return model.gated() ? 2 : 1; }

Linear fc1(const LayerShape& s, std::int64_t width) {
  return tuned(s,
               {"fc1", s.model.hidden_size, gate_factor(s.model) * width / s.tp, MatrixSplit::column,
                s.precision_of(LinearPart::mlp)},
               "fc1");
}

Linear fc2(const LayerShape& s, std::int64_t width) {
  const Precision p = s.precision_of(LinearPart::mlp);
  const std::int64_t h = s.model.hidden_size;
  if (s.gathers_layers()) return tuned(s, {"fc2", width, h / s.tp, MatrixSplit::column, p}, "fc2");
  return tuned(s, {"fc2", width / s.tp, h, MatrixSplit::row, p}, "fc2");
}

void activation(OpWriter& writer, Pass pass, std::int64_t elements) {
  const LayerShape& s = writer.shape;
  const bool unfused = s.training.runs_chains() && s.model.gated();
  const Moved moved =
      unfused ? kUnfusedGate
              : Moved{(gate_factor(s.model) + 1) * s.element_bytes, (2 * gate_factor(s.model) + 1) * s.element_bytes};
  writer.elementwise(OperatorKind::activation, pass, s.model.gated() ? "swiglu" : "gelu", elements, moved.in(pass));
}

std::int64_t dense_activated(const LayerShape& s) {
  const std::int64_t width = s.model.ffn_hidden_size;
  return s.tokens * (s.gathers_layers() ? width : width / s.tp);
}

void dense_block(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  const std::int64_t width = s.model.ffn_hidden_size;
  if (!s.sums_blocks()) gather_sequence(writer, LinearPart::mlp);
  linear_forward(writer, fc1(s, width));
  gather_result(writer, gate_factor(s.model) * width);
  activation(writer, Pass::forward, dense_activated(s));
  if (ends_at_activation(writer)) return;
  linear_forward(writer, fc2(s, width));
  finish_block(writer);
}

void dense_forward(OpWriter& writer) {
  writer.capture(GraphModule::mlp, [&] {
    norm_forward(writer);
    dense_block(writer);
    if (!ends_at_activation(writer)) residual_forward(writer);
  });
}

void dense_backward(OpWriter& writer, BackwardPart part) {
  const LayerShape& s = writer.shape;
  const std::int64_t width = s.model.ffn_hidden_size;
  writer.capture(GraphModule::mlp, [&] {
    residual_backward(writer, part);
    gather_sequence(writer, LinearPart::mlp);
    row_backward(writer, fc2(s, width), part);
    if (has_input_gradients(part)) activation(writer, Pass::backward, dense_activated(s));
    column_backward(writer, fc1(s, width), part);
    if (has_input_gradients(part) && has_separate_inputs(s) && s.model.gated()) sum_of_input_gradients(writer);
    block_norm_backward(writer, part);
  });
}

}  // namespace tracecast
