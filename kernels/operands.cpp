#include "kernels/operands.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tracecast {
namespace {

std::int64_t bytes_of_residual(const Operator& op, std::int64_t element_size) {
  if (op.name != "dropout_add") return 3 * element_size;
  return (is_forward(op) ? 3 : 2) * element_size + 1;
}

std::int64_t bytes_of_update(const Update& update) {
  const std::int64_t copy = update.narrow_copy ? 2 : 0;
  if (update.kind == UpdateKind::sgd) return 12 + copy;
  return (update.kind == UpdateKind::momentum ? 20 : 28) + copy;
}

std::int64_t bytes_of_optimizer(const Operator& op, const ElementwiseShape& shape) {
  if (op.name == "grad_norm" || op.name == "zero_grad") return 4;
  if (op.name == "unscale" || op.name == "layer_norms") return 8;
  return bytes_of_update(update_of(shape));
}

}  // namespace

Widths widths_of(const Model& model, const Plan& plan) {
  return {
      model.hidden_size,        model.head_dim, std::max<std::int64_t>(1, model.num_attention_heads / plan.parallel.tp),
      plan.training.seq_length, plan.tokens(),  std::max<std::int64_t>(1, model.vocab_size / plan.parallel.tp)};
}

Rows rows_of(std::int64_t elements, std::int64_t width) {
  width = std::max<std::int64_t>(1, std::min(width, elements));
  return {std::max<std::int64_t>(1, elements / width), width};
}

Rows token_rows(std::int64_t elements, const Widths& widths) {
  const std::int64_t tokens = std::max<std::int64_t>(1, std::min(widths.tokens, elements));
  return {tokens, std::max<std::int64_t>(1, elements / tokens)};
}

Rows norm_rows(const Operator& op, std::int64_t elements, const Widths& widths) {
  return rows_of(elements, op.name == "qk_norm" ? widths.head_dim : widths.hidden);
}

GemmLayout layout_of(Pass pass) {
  if (pass == Pass::dgrad) return GemmLayout::normal_normal;
  return pass == Pass::wgrad ? GemmLayout::transposed_normal : GemmLayout::normal_transposed;
}

GemmLayout layout_of(const Operator& op) {
  if (op.kind != OperatorKind::scores) return layout_of(op.pass);
  // Forward: Q K^T and P V; backward: dO V^T, P^T dO, dS K, dS^T Q.
  if (op.name == "qk" || op.name == "d_p") return GemmLayout::normal_transposed;
  return op.name == "d_v" || op.name == "d_k" ? GemmLayout::transposed_normal : GemmLayout::normal_normal;
}

AttentionSizes sizes_of(const AttentionShape& s) {
  return {s.batch * s.q_len * s.heads * s.qk_dim, s.batch * s.kv_len * s.kv_heads * s.qk_dim,
          s.batch * s.kv_len * s.kv_heads * s.v_dim, s.batch * s.q_len * s.heads * s.v_dim,
          s.batch * s.heads * s.q_len};
}

Update update_of(const ElementwiseShape& shape) {
  const std::int64_t bytes = shape.traffic.count / std::max<std::int64_t>(1, shape.elements);
  if (bytes < 20) return {UpdateKind::sgd, bytes > 12};
  if (bytes < 28) return {UpdateKind::momentum, bytes > 20};
  return {UpdateKind::adam, bytes > 28};
}

bool casts_twice(const ElementwiseShape& shape) { return shape.traffic.count > 7 * shape.elements / 2; }

std::int64_t bytes_per_element(const Operator& op, std::int64_t element_size) {
  const ElementwiseShape& shape = std::get<ElementwiseShape>(op.shape);
  const bool forward = is_forward(op);
  switch (op.kind) {
    case OperatorKind::norm:
    case OperatorKind::softmax:
      return (forward ? 2 : 3) * element_size;
    case OperatorKind::activation:
      return (op.name == "swiglu" ? (forward ? 3 : 5) : (forward ? 2 : 3)) * element_size;
    case OperatorKind::residual:
      return bytes_of_residual(op, element_size);
    case OperatorKind::embedding:
      return forward ? 2 * element_size : element_size + 8;
    case OperatorKind::cross_entropy:
      return (forward ? 1 : 2) * element_size;
    case OperatorKind::optimizer:
      if (op.name != "weight cast") return bytes_of_optimizer(op, shape);
      [[fallthrough]];
    case OperatorKind::cast:
      return element_size + (casts_twice(shape) ? 2 : 1);
    default:
      return 2 * element_size;
  }
}

std::string other_traffic(const Operator& op, std::int64_t element_size) {
  constexpr double kTolerance = 1.25;
  const auto* const shape = std::get_if<ElementwiseShape>(&op.shape);
  if (shape == nullptr || shape->elements == 0) return "";
  const auto moved = static_cast<double>(bytes_per_element(op, element_size));
  const double wanted = static_cast<double>(shape->traffic.count) / static_cast<double>(shape->elements);
  if (moved <= kTolerance * wanted && wanted <= kTolerance * moved) return "";
  return fmt::format("moves {:.3g} bytes per element, the operator {:.3g}", moved, wanted);
}

}  // namespace tracecast
