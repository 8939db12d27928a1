#include "kernels/cpu_driver.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {
namespace {

constexpr float kDropout = 0.1F;

template <class T>
void grow(std::vector<T>& values, std::int64_t count, T fill) {
  if (static_cast<std::int64_t>(values.size()) < count) values.resize(static_cast<std::size_t>(count), fill);
}

Need need_of_attention(const AttentionShape& shape, bool forward) {
  const AttentionSizes n = sizes_of(shape);
  const std::int64_t inputs = n.query + n.key + n.value;
  if (forward) return {inputs, n.out + n.statistics};
  return {inputs + 2 * n.out + n.statistics, inputs};
}

}  // namespace

Need need_of(const Operator& op, const Widths& widths) {
  // Each operand is rounded up to cache lines; an operator has at most this many operands.
  constexpr std::int64_t kRounding = 8 * 16;
  if (const auto* gemm = std::get_if<GemmShape>(&op.shape))
    return {gemm->batch * (gemm->m * gemm->k + gemm->k * gemm->n) + kRounding,
            gemm->batch * gemm->m * gemm->n + kRounding};
  if (const auto* attention = std::get_if<AttentionShape>(&op.shape)) {
    const Need need = need_of_attention(*attention, is_forward(op));
    return {need.inputs + kRounding, need.outputs + kRounding};
  }
  // At most four tensors are read (the optimizer reads and writes them); gated activations write two.
  const std::int64_t n = std::get<ElementwiseShape>(op.shape).elements;
  return {4 * n + 2 * widths.hidden + kRounding, 4 * n + 3 * widths.hidden + kRounding};
}

std::int64_t Driver::memory_bytes(const Widths& widths, const Need& largest, std::int64_t ring_floats) {
  const std::int64_t inputs = std::max(ring_floats, 2 * largest.inputs);
  const std::int64_t outputs = std::max(ring_floats, 2 * largest.outputs);
  return 4 * (inputs + outputs + widths.vocabulary * widths.hidden);
}

Driver::Driver(const Widths& widths, const Need& largest, std::int64_t ring_floats)
    : widths_(widths),
      inputs_(std::max(ring_floats, 2 * largest.inputs), true),
      outputs_(std::max(ring_floats, 2 * largest.outputs), false),
      table_(static_cast<std::size_t>(widths.vocabulary * widths.hidden)) {
  std::uint32_t state = 12345;
  ids_.resize(static_cast<std::size_t>(1 << 16));
  for (std::int32_t& id : ids_) {
    state = state * 1664525U + 1013904223U;
    id = static_cast<std::int32_t>((state >> 8) % static_cast<std::uint32_t>(widths.vocabulary));
  }
  statistics_.assign(static_cast<std::size_t>(3 << 16), 1.0F);
}

void Driver::run(const Operator& op) {
  if (std::holds_alternative<GemmShape>(op.shape)) return run_gemm(op);
  if (std::holds_alternative<AttentionShape>(op.shape)) return run_attention(op);
  const std::int64_t elements = std::get<ElementwiseShape>(op.shape).elements;
  switch (op.kind) {
    case OperatorKind::norm:
      return run_norm(op, elements);
    case OperatorKind::activation:
      return run_activation(op, elements);
    case OperatorKind::softmax:
      return run_softmax(op, elements);
    case OperatorKind::residual:
      return run_residual(op, elements);
    case OperatorKind::embedding:
      return run_embedding(op, elements);
    case OperatorKind::cross_entropy:
      return run_cross_entropy(op, elements);
    case OperatorKind::optimizer:
      return run_optimizer(op, elements);
    default:
      return run_elementwise(op, elements);
  }
}

void Driver::run_gemm(const Operator& op) {
  const GemmShape& shape = std::get<GemmShape>(op.shape);
  float* const a = inputs_.take(shape.batch * shape.m * shape.k);
  float* const b = inputs_.take(shape.batch * shape.k * shape.n);
  gemm(layout_of(op), shape, a, b, outputs_.take(shape.batch * shape.m * shape.n));
}

void Driver::run_attention(const Operator& op) {
  const AttentionShape& shape = std::get<AttentionShape>(op.shape);
  const AttentionSizes n = sizes_of(shape);
  float* const q = inputs_.take(n.query);
  float* const k = inputs_.take(n.key);
  float* const v = inputs_.take(n.value);
  if (is_forward(op)) {
    float* const out = outputs_.take(n.out);
    return attention_forward(shape, q, k, v, out, outputs_.take(n.statistics));
  }
  float* const out = inputs_.take(n.out);
  float* const d_out = inputs_.take(n.out);
  float* const statistics = inputs_.take(n.statistics);
  float* const d_q = outputs_.take(n.query);
  float* const d_k = outputs_.take(n.key);
  attention_backward(shape, q, k, v, out, statistics, d_out, d_q, d_k, outputs_.take(n.value));
}

void Driver::run_norm(const Operator& op, std::int64_t elements) {
  const auto [rows, width] = norm_rows(op, elements, widths_);
  const bool layer = op.name == "layer_norm";
  float* const x = inputs_.take(elements);
  float* const weight = inputs_.take(width);
  if (is_forward(op)) {
    float* const y = outputs_.take(elements);
    float* const statistics = outputs_.take(2 * rows);
    if (layer) return layer_norm_forward(rows, width, x, weight, inputs_.take(width), y, statistics);
    return rms_norm_forward(rows, width, x, weight, y, statistics);
  }
  grow(statistics_, 2 * rows, 1.0F);
  float* const d_y = inputs_.take(elements);
  float* const d_x = outputs_.take(elements);
  float* const d_weight = outputs_.take(width);
  if (layer)
    return layer_norm_backward(rows, width, x, weight, statistics_.data(), d_y, d_x, d_weight, outputs_.take(width));
  rms_norm_backward(rows, width, x, weight, statistics_.data(), d_y, d_x, d_weight);
}

void Driver::run_activation(const Operator& op, std::int64_t elements) {
  const auto [rows, width] = token_rows(elements, widths_);
  const bool gated = op.name == "swiglu";
  const std::int64_t inputs = gated ? 2 * rows * width : elements;
  float* const x = inputs_.take(inputs);
  if (is_forward(op)) {
    float* const y = outputs_.take(elements);
    return gated ? swiglu_forward(rows, width, x, y) : gelu_forward(elements, x, y);
  }
  float* const d_y = inputs_.take(elements);
  float* const d_x = outputs_.take(inputs);
  gated ? swiglu_backward(rows, width, x, d_y, d_x) : gelu_backward(elements, x, d_y, d_x);
}

void Driver::run_softmax(const Operator& op, std::int64_t elements) {
  const auto [rows, width] = rows_of(elements, widths_.sequence);
  float* const x = inputs_.take(elements);
  const float scale = 0.1F;
  if (is_forward(op)) return softmax_forward(1, rows, width, scale, false, x, outputs_.take(elements));
  float* const d_y = inputs_.take(elements);
  softmax_backward(1, rows, width, scale, x, d_y, outputs_.take(elements));
}

void Driver::run_residual(const Operator& op, std::int64_t elements) {
  float* const a = inputs_.take(elements);
  float* const b = inputs_.take(elements);
  if (op.name != "dropout_add") return add(elements, a, b, outputs_.take(elements));
  if (!is_forward(op)) return dropout_backward(elements, kDropout, a, b, outputs_.take(elements));
  float* const mask = inputs_.take(elements);
  dropout_add(elements, kDropout, a, b, mask, outputs_.take(elements));
}

void Driver::run_embedding(const Operator& op, std::int64_t elements) {
  const auto [rows, width] = rows_of(elements, widths_.hidden);
  while (static_cast<std::int64_t>(ids_.size()) < rows) ids_.insert(ids_.end(), ids_.begin(), ids_.end());
  if (is_forward(op)) return embedding_forward(rows, width, table_.data(), ids_.data(), outputs_.take(elements));
  embedding_backward(rows, width, inputs_.take(elements), ids_.data(), table_.data());
}

void Driver::run_cross_entropy(const Operator& op, std::int64_t elements) {
  const auto [rows, width] = token_rows(elements, widths_);
  while (static_cast<std::int64_t>(ids_.size()) < rows) ids_.insert(ids_.end(), ids_.begin(), ids_.end());
  grow(statistics_, 3 * rows, 1.0F);
  float* const logits = inputs_.take(rows * width);
  if (is_forward(op)) return cross_entropy_forward(rows, width, 0, logits, ids_.data(), outputs_.take(3 * rows));
  cross_entropy_backward(rows, width, 0, 1.0F, logits, ids_.data(), statistics_.data(), outputs_.take(rows * width));
}

void Driver::run_optimizer(const Operator& op, std::int64_t elements) {
  if (op.name == "grad_norm") {
    sink_ += squared_norm(elements, inputs_.take(elements));
    return;
  }
  if (op.name == "zero_grad") return scale(elements, 0.0F, outputs_.take(elements));
  if (op.name == "unscale") return scale(elements, 1.0F, inputs_.take(elements));
  const Update update = update_of(std::get<ElementwiseShape>(op.shape));
  float* const gradient = inputs_.take(elements);
  float* const weight = outputs_.take(elements);
  if (update.kind == UpdateKind::sgd) return sgd(elements, 1e-6F, 0.0F, gradient, weight, nullptr);
  float* const first = outputs_.take(elements);
  if (update.kind == UpdateKind::momentum) return sgd(elements, 1e-6F, 0.9F, gradient, weight, first);
  grow(second_moment_, elements, 0.0F);
  adam(elements, {}, gradient, weight, first, second_moment_.data(), update.narrow_copy ? narrow(elements) : nullptr);
}

std::uint16_t* Driver::narrow(std::int64_t count) {
  grow(narrow_, count, std::uint16_t{0});
  return narrow_.data();
}

void Driver::run_elementwise(const Operator& op, std::int64_t elements) {
  float* const x = inputs_.take(elements);
  float* const y = outputs_.take(elements);
  switch (op.kind) {
    case OperatorKind::rope: {
      const auto [rows, width] = rows_of(elements, widths_.head_dim);
      return rope(rows, width, widths_.heads, widths_.sequence, !is_forward(op), x, y);
    }
    case OperatorKind::permute: {
      const auto [rows, width] = rows_of(elements, widths_.hidden);
      std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
      for (std::int64_t r = 0; r < rows; ++r)
        order[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(r * 7919 % rows);
      return permute_rows(rows, width, x, order.data(), y);
    }
    case OperatorKind::cast:
      return to_bf16(elements, x, narrow(elements));
    default:
      std::memcpy(y, x, static_cast<std::size_t>(elements) * sizeof(float));
  }
}

}  // namespace tracecast::cpu
