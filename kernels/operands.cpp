#include "kernels/operands.hpp"

#include <algorithm>

namespace tracecast {

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

}  // namespace tracecast
