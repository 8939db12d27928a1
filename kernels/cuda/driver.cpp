#include "kernels/cuda/driver.hpp"

#include <algorithm>

namespace tracecast::cuda {
namespace {

constexpr float kDropout = 0.1F;
constexpr std::uint64_t kSeed = 20'261'121;

}  // namespace

WorkState state_of(cudaError_t query) {
  if (query == cudaErrorNotReady) return WorkState::running;
  TRACECAST_CUDA(query);
  return WorkState::done;
}

Driver::Driver(const Widths& widths, const ByteNeed& need)
    : widths_(widths),
      inputs_(std::max(kRing, need.inputs)),
      outputs_(std::max(kRing, need.outputs)),
      narrow_inputs_(need.narrow > 0 ? std::max(kRing, need.narrow) : 0),
      table_(widths.vocabulary * widths.hidden * 2),
      table_gradient_(widths.vocabulary * widths.hidden * 4),
      ids_(kWords * 4),
      statistics_(kWords * 4),
      norm_scratch_(kNormBlocks * 2 * widths.hidden * 4),
      sum_(sizeof(double)) {
  fill_random(inputs_.memory().bytes() / 2, kSeed, inputs_.memory().as<Bf16>(), nullptr);
  fill_random_fp8(narrow_inputs_.memory().bytes(), kSeed + 5, narrow_inputs_.memory().as<std::uint8_t>(), nullptr);
  fill_random(table_.bytes() / 2, kSeed + 1, table_.as<Bf16>(), nullptr);
  fill_random_ids(kWords, widths.vocabulary, kSeed + 2, ids_.as<std::int32_t>(), nullptr);
  fill_random_positive(kWords, kSeed + 3, statistics_.as<float>(), nullptr);
  TRACECAST_CUDA(cudaMemset(outputs_.memory().as<void>(), 0, static_cast<std::size_t>(outputs_.memory().bytes())));
  TRACECAST_CUDA(cudaMemset(table_gradient_.as<void>(), 0, static_cast<std::size_t>(table_gradient_.bytes())));
  TRACECAST_CUDA(cudaDeviceSynchronize());
}

bool Driver::masked(const Operator& op) {
  const auto* shape = std::get_if<AttentionShape>(&op.shape);
  return shape == nullptr || attention_.has_masked_kernel(*shape, is_forward(op));
}

void Driver::run(const Operator& op, cudaStream_t stream) {
  if (std::holds_alternative<GemmShape>(op.shape)) return run_gemm(op, stream);
  if (std::holds_alternative<AttentionShape>(op.shape)) return run_attention(op, stream);
  const std::int64_t elements = std::get<ElementwiseShape>(op.shape).elements;
  switch (op.kind) {
    case OperatorKind::norm:
      run_norm(op, elements, stream);
      break;
    case OperatorKind::activation:
      run_activation(op, elements, stream);
      break;
    case OperatorKind::softmax:
      run_softmax(op, elements, stream);
      break;
    case OperatorKind::residual:
      run_residual(op, elements, stream);
      break;
    case OperatorKind::embedding:
      run_embedding(op, elements, stream);
      break;
    case OperatorKind::cross_entropy:
      run_cross_entropy(op, elements, stream);
      break;
    case OperatorKind::optimizer:
      run_optimizer(op, elements, stream);
      break;
    case OperatorKind::cast:
      run_cast(op, elements, stream);
      break;
    default:
      run_other(op, elements, stream);
  }
  TRACECAST_CUDA(cudaGetLastError());
}

void Driver::run_gemm(const Operator& op, cudaStream_t stream) {
  const Result<GemmProblem> problem = gemm_problem(op);
  TRACECAST_ASSERT(problem.has_value(), "the operator must be supported");
  const auto bytes = [&](const GemmOperand& operand) {
    return operand.elements() * problem->batch * element_bytes(operand.type);
  };
  DeviceRing& ring = element_bytes(problem->first.type) == 1 ? narrow_inputs_ : inputs_;
  const char* const second = ring.take<char>(bytes(problem->second));
  const char* const first = ring.take<char>(bytes(problem->first));
  gemm_.run(*problem, first, second, outputs_.take<char>(bytes(problem->result)), stream);
}

void Driver::run_attention(const Operator& op, cudaStream_t stream) {
  const AttentionShape& shape = std::get<AttentionShape>(op.shape);
  const AttentionSizes n = sizes_of(shape);
  const bool forward = is_forward(op);
  AttentionOperands operands;
  operands.q = inputs_.take<Bf16>(n.query);
  operands.k = inputs_.take<Bf16>(n.key);
  operands.v = inputs_.take<Bf16>(n.value);
  operands.out = forward ? outputs_.take<Bf16>(n.out) : inputs_.take<Bf16>(n.out);
  operands.statistics = forward ? outputs_.take<float>(n.statistics) : inputs_.take<float>(n.statistics);
  if (!forward) {
    operands.d_out = inputs_.take<Bf16>(n.out);
    operands.d_q = outputs_.take<Bf16>(n.query);
    operands.d_k = outputs_.take<Bf16>(n.key);
    operands.d_v = outputs_.take<Bf16>(n.value);
  }
  attention_.run(shape, forward, operands, stream);
}

void Driver::run_norm(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const auto [rows, width] = norm_rows(op, elements, widths_);
  const bool layer = op.name == "layer_norm";
  const Bf16* const x = inputs_.take<Bf16>(elements);
  const Bf16* const weight = inputs_.take<Bf16>(width);
  if (is_forward(op)) {
    Bf16* const y = outputs_.take<Bf16>(elements);
    float* const statistics = outputs_.take<float>(2 * rows);
    if (layer) return layer_norm_forward(rows, width, x, weight, inputs_.take<Bf16>(width), y, statistics, stream);
    return rms_norm_forward(rows, width, x, weight, y, statistics, stream);
  }
  const Bf16* const d_y = inputs_.take<Bf16>(elements);
  const float* const statistics = inputs_.take<float>(2 * rows);
  Bf16* const d_x = outputs_.take<Bf16>(elements);
  float* const d_weight = outputs_.take<float>(width);
  float* const d_bias = layer ? outputs_.take<float>(width) : nullptr;
  norm_backward(rows, width, x, weight, statistics, d_y, d_x, d_weight, d_bias, norm_scratch_.as<float>(), stream);
}

void Driver::run_activation(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const auto [rows, width] = token_rows(elements, widths_);
  const bool gated = op.name == "swiglu";
  const std::int64_t count = gated ? 2 * rows * width : elements;
  const Bf16* const x = inputs_.take<Bf16>(count);
  if (is_forward(op)) {
    Bf16* const y = outputs_.take<Bf16>(elements);
    return gated ? swiglu_forward(rows, width, x, y, stream) : gelu_forward(elements, x, y, stream);
  }
  const Bf16* const d_y = inputs_.take<Bf16>(elements);
  Bf16* const d_x = outputs_.take<Bf16>(count);
  gated ? swiglu_backward(rows, width, x, d_y, d_x, stream) : gelu_backward(elements, x, d_y, d_x, stream);
}

void Driver::run_softmax(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const auto [rows, width] = rows_of(elements, widths_.sequence);
  const Bf16* const x = inputs_.take<Bf16>(elements);
  const float factor = 0.1F;
  if (is_forward(op)) return softmax_forward(rows, width, factor, x, outputs_.take<Bf16>(elements), stream);
  const Bf16* const d_y = inputs_.take<Bf16>(elements);
  softmax_backward(rows, width, factor, x, d_y, outputs_.take<Bf16>(elements), stream);
}

void Driver::run_residual(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const Bf16* const a = inputs_.take<Bf16>(elements);
  const bool dropout = op.name == "dropout_add";
  if (!dropout) {
    const Bf16* const b = inputs_.take<Bf16>(elements);
    return add(elements, a, b, outputs_.take<Bf16>(elements), stream);
  }
  const std::uint8_t* const mask = inputs_.take<std::uint8_t>(elements);
  if (!is_forward(op)) return dropout_backward(elements, kDropout, a, mask, outputs_.take<Bf16>(elements), stream);
  const Bf16* const residual = inputs_.take<Bf16>(elements);
  dropout_add(elements, kDropout, a, residual, mask, outputs_.take<Bf16>(elements), stream);
}

void Driver::run_embedding(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const auto [rows, width] = rows_of(elements, widths_.hidden);
  TRACECAST_ASSERT(rows <= kWords, "rows must not exceed the number of words");
  const std::int32_t* const ids = ids_.as<std::int32_t>();
  if (is_forward(op))
    return embedding_forward(rows, width, table_.as<Bf16>(), ids, outputs_.take<Bf16>(elements), stream);
  embedding_backward(rows, width, inputs_.take<Bf16>(elements), ids, table_gradient_.as<float>(), stream);
}

void Driver::run_cross_entropy(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const auto [rows, width] = token_rows(elements, widths_);
  TRACECAST_ASSERT(3 * rows <= kWords, "rows must not exceed the number of targets");
  const Bf16* const logits = inputs_.take<Bf16>(rows * width);
  const std::int32_t* const targets = ids_.as<std::int32_t>();
  if (is_forward(op))
    return cross_entropy_forward(rows, width, 0, logits, targets, outputs_.take<float>(3 * rows), stream);
  cross_entropy_backward(rows, width, 0, 1.0F, logits, targets, statistics_.as<float>(),
                         outputs_.take<Bf16>(rows * width), stream);
}

void Driver::run_optimizer(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  if (op.name == "grad_norm") return squared_norm(elements, inputs_.take<float>(elements), sum_.as<double>(), stream);
  if (op.name == "zero_grad") return scale(elements, 0.0F, outputs_.take<float>(elements), stream);
  if (op.name == "unscale") return scale(elements, 1.0F, outputs_.take<float>(elements), stream);
  if (op.name == "layer_norms") {
    squared_norm(elements, inputs_.take<float>(elements), sum_.as<double>(), stream);
    return squared_norm(elements, outputs_.take<float>(elements), sum_.as<double>(), stream);
  }
  if (op.name == "weight cast") return run_cast(op, elements, stream);
  const Update update = update_of(std::get<ElementwiseShape>(op.shape));
  const float* const gradient = inputs_.take<float>(elements);
  float* const weight = outputs_.take<float>(elements);
  float* const first = update.kind == UpdateKind::sgd ? nullptr : outputs_.take<float>(elements);
  float* const second = update.kind == UpdateKind::adam ? outputs_.take<float>(elements) : nullptr;
  Bf16* const narrow = update.narrow_copy ? outputs_.take<Bf16>(elements) : nullptr;
  if (update.kind == UpdateKind::adam) return adam(elements, {}, gradient, weight, first, second, narrow, stream);
  sgd(elements, 1e-6F, first == nullptr ? 0.0F : 0.9F, gradient, weight, first, narrow, stream);
}

void Driver::run_cast(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const auto [rows, width] = rows_of(elements, widths_.hidden);
  const bool twice = casts_twice(std::get<ElementwiseShape>(op.shape));
  const Bf16* const x = inputs_.take<Bf16>(rows * width);
  std::uint8_t* const y = outputs_.take<std::uint8_t>(rows * width);
  quantise(rows, width, 1.0F, x, y, twice ? outputs_.take<std::uint8_t>(rows * width) : nullptr, stream);
}

/// Random row indices below `rows`; created once for each number of rows, before timing.
const std::int32_t* Driver::row_order(std::int64_t rows, cudaStream_t stream) {
  DeviceMemory& order = orders_[rows];
  if (order.bytes() == 0) {
    order = DeviceMemory(rows * 4);
    fill_random_ids(rows, rows, kSeed + 4, order.as<std::int32_t>(), stream);
  }
  return order.as<std::int32_t>();
}

void Driver::run_other(const Operator& op, std::int64_t elements, cudaStream_t stream) {
  const Bf16* const x = inputs_.take<Bf16>(elements);
  Bf16* const y = outputs_.take<Bf16>(elements);
  if (op.kind == OperatorKind::rope) {
    const auto [rows, width] = rows_of(elements, widths_.head_dim);
    return rope(rows, width, widths_.heads, widths_.sequence, !is_forward(op), x, y, stream);
  }
  if (op.kind == OperatorKind::permute) {
    const auto [rows, width] = rows_of(elements, widths_.hidden);
    return permute_rows(rows, width, x, row_order(rows, stream), y, stream);
  }
  TRACECAST_CUDA(cudaMemcpyAsync(y, x, static_cast<std::size_t>(elements) * 2, cudaMemcpyDeviceToDevice, stream));
}

}  // namespace tracecast::cuda
