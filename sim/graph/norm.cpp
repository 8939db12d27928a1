#include "sim/graph/norm.hpp"

namespace tracecast {
namespace {

// Fused: one kernel, 16-bit tensors (docs/references.md#elementwise-bytes). Unfused: separate operators of the
// framework, which each read and write: to fp32, square, mean, scale, to 16 bit, weight.
constexpr Moved kFusedNorm{4, 10};
constexpr Moved kUnfusedRmsNorm{36, 52};
constexpr Moved kFusedResidualNorm{8, 8};

Moved norm_traffic(const LayerShape& shape) {
  if (shape.training.compiled) return widened(kFusedResidualNorm, shape);
  const Training& training = shape.training;
  const bool unfused = training.unfused_elementwise && !training.fused_norms && shape.model.norm == Norm::rms_norm;
  return unfused ? kUnfusedRmsNorm : widened(kFusedNorm, shape);
}

std::int64_t elements(const LayerShape& shape) { return shape.local_tokens * shape.model.hidden_size; }

void write_norm(OpWriter& writer, Pass pass) {
  writer.elementwise(OperatorKind::norm, pass, writer.shape.model.norm == Norm::rms_norm ? "rms_norm" : "layer_norm",
                     elements(writer.shape), norm_traffic(writer.shape).in(pass));
}

}  // namespace

std::int64_t norm_parameters(const Model& model) { return model.hidden_size * (model.norm_bias ? 2 : 1); }

void norm_forward(OpWriter& writer) { write_norm(writer, Pass::forward); }

void norm_backward(OpWriter& writer, BackwardPart part) {
  if (has_input_gradients(part)) write_norm(writer, Pass::backward);
  if (has_weight_gradients(part) && writer.shape.trains_weights())
    writer.gradients(norm_parameters(writer.shape.model));
}

void residual_forward(OpWriter& writer) {
  const bool dropout = writer.shape.model.dropout > 0;
  if (writer.shape.training.compiled && !dropout) return;
  writer.elementwise(OperatorKind::residual, Pass::forward, dropout ? "dropout_add" : "residual",
                     elements(writer.shape), 3 * writer.shape.element_bytes + (dropout ? 1 : 0));
}

void residual_backward(OpWriter& writer, BackwardPart part) {
  if (writer.shape.model.dropout > 0 && has_input_gradients(part))
    writer.elementwise(OperatorKind::residual, Pass::backward, "dropout_add", elements(writer.shape),
                       2 * writer.shape.element_bytes + 1);
}

}  // namespace tracecast
