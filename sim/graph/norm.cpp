#include "sim/graph/norm.hpp"

namespace tracecast {
namespace {

// Bytes of 16-bit tensors (docs/references.md#elementwise-bytes). Apex and PyTorch compute the gradients of input and weights in a
// kernel each, Transformer Engine in one. Unfused: separate operators of the framework, which each read and write: to fp32, square,
// mean, scale, to 16 bit, weight.
constexpr Moved kFusedNorm{4, 10};
constexpr Moved kTransformerEngineNorm{4, 6};
constexpr Moved kUnfusedRmsNorm{36, 52};
// With the sums at the residual. Backward torch.compile's kernels take 1.5 to 2.2 times as long as those whose rate the profiles have: so many
// bytes.
constexpr Moved kCompiledResidualNorm{8, 14};

Moved norm_traffic(const LayerShape& shape) {
  const Training& training = shape.training;
  if (training.compiled) return widened(kCompiledResidualNorm, shape);
  if (training.runs_chains() && !training.fused_norms && shape.model.norm == Norm::rms_norm) return kUnfusedRmsNorm;
  return widened(training.transformer_engine ? kTransformerEngineNorm : kFusedNorm, shape);
}

std::int64_t elements(const LayerShape& shape) { return shape.local_tokens * shape.model.hidden_size; }

void write_norm(OpWriter& writer, Pass pass) {
  writer.elementwise(OperatorKind::norm, pass, writer.shape.model.norm == Norm::rms_norm ? "rms_norm" : "layer_norm",
                     elements(writer.shape), norm_traffic(writer.shape).in(pass));
}

void sum_of_two(OpWriter& writer, Pass pass, const std::string& name) {
  writer.elementwise(OperatorKind::residual, pass, name, elements(writer.shape), 3 * writer.shape.element_bytes);
}

}  // namespace

std::int64_t norm_parameters(const Model& model) { return model.hidden_size * (model.norm_bias ? 2 : 1); }

void norm_forward(OpWriter& writer) { write_norm(writer, Pass::forward); }

void norm_backward(OpWriter& writer, BackwardPart part) {
  if (has_input_gradients(part)) write_norm(writer, Pass::backward);
  if (has_weight_gradients(part) && writer.shape.trains_weights())
    writer.gradients(norm_parameters(writer.shape.model));
}

void sum_of_input_gradients(OpWriter& writer) {
  if (writer.shape.training.compiled) return;
  sum_of_two(writer, Pass::backward, "input_gradient");
  writer.share_launch();
}

void block_norm_backward(OpWriter& writer, BackwardPart part) {
  norm_backward(writer, part);
  if (writer.shape.training.compiled || !has_input_gradients(part)) return;
  sum_of_two(writer, Pass::backward, "residual_gradient");
  writer.share_launch();
}

void residual_forward(OpWriter& writer) {
  const Training& training = writer.shape.training;
  if (writer.shape.model.dropout > 0)
    return writer.elementwise(OperatorKind::residual, Pass::forward, "dropout_add", elements(writer.shape),
                              3 * writer.shape.element_bytes + 1);
  if (training.compiled) return;
  sum_of_two(writer, Pass::forward, "residual");
  if (training.transformer_engine) writer.share_launch();
}

void residual_backward(OpWriter& writer, BackwardPart part) {
  if (writer.shape.model.dropout > 0 && has_input_gradients(part))
    writer.elementwise(OperatorKind::residual, Pass::backward, "dropout_add", elements(writer.shape),
                       2 * writer.shape.element_bytes + 1);
}

}  // namespace tracecast
