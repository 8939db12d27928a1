#include "kernels/cuda/operand_bytes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/cuda/gemm_problem.hpp"
#include "kernels/cuda/limits.hpp"

namespace tracecast::cuda {
namespace {

constexpr std::int64_t kRounding = 12 * 256;  // each operand is aligned to 256 bytes; no operator has more than 12

ByteNeed need_of_gemm(const Operator& op) {
  const Result<GemmProblem> problem = gemm_problem(op);
  if (!problem) return {};
  const auto bytes = [&](const GemmOperand& operand) {
    return operand.elements() * problem->batch * element_bytes(operand.type);
  };
  const std::int64_t read = bytes(problem->first) + bytes(problem->second) + kRounding;
  const bool narrow = element_bytes(problem->first.type) == 1;
  return {narrow ? 0 : read, bytes(problem->result) + kRounding, narrow ? read : 0};
}

ByteNeed need_of_attention(const AttentionShape& shape, bool forward) {
  const AttentionSizes n = sizes_of(shape);
  const std::int64_t inputs = 2 * (n.query + n.key + n.value);
  const std::int64_t results = 2 * n.out + 4 * n.statistics;
  if (forward) return {inputs + kRounding, results + kRounding, 0};
  return {inputs + results + 2 * n.out + kRounding, inputs + kRounding, 0};
}

/// Maximum: four fp32 tensors (optimizer) or those of a gated activation, with statistics per row.
ByteNeed need_of_elementwise(const Operator& op, std::int64_t n, const Widths& widths) {
  const std::int64_t rows = norm_rows(op, n, widths).rows;
  if (op.kind == OperatorKind::optimizer) return {4 * n + kRounding, 14 * n + kRounding, 0};
  if (op.kind == OperatorKind::norm)
    return {4 * n + 4 * widths.hidden + 8 * rows + kRounding, 2 * n + 8 * rows + 16 * widths.hidden + kRounding, 0};
  if (op.kind == OperatorKind::activation) return {6 * n + kRounding, 4 * n + kRounding, 0};
  if (op.kind == OperatorKind::cross_entropy)
    return {2 * n + 12 * widths.tokens + kRounding, 2 * n + 12 * widths.tokens + kRounding, 0};
  return {6 * n + kRounding, 4 * n + kRounding, 0};
}

}  // namespace

ByteNeed largest(const ByteNeed& a, const ByteNeed& b) {
  return {std::max(a.inputs, b.inputs), std::max(a.outputs, b.outputs), std::max(a.narrow, b.narrow)};
}

ByteNeed need_of(const Operator& op, const Widths& widths) {
  if (std::holds_alternative<GemmShape>(op.shape)) return need_of_gemm(op);
  if (const auto* attention = std::get_if<AttentionShape>(&op.shape))
    return need_of_attention(*attention, is_forward(op));
  return need_of_elementwise(op, std::get<ElementwiseShape>(op.shape).elements, widths);
}

ByteNeed need_of(const CollectiveCall& call) {
  constexpr std::int64_t kShares = 1 << 16;  // the share of one rank is rounded up
  return {call.size.count + kShares, call.size.count + kShares, 0};
}

ByteNeed need_of(const StepGraph& graph, const Widths& widths) {
  ByteNeed need;
  for (const CostedOperator& costed : graph.operators) need = largest(need, need_of(costed.op, widths));
  for (const CostedCollective& costed : graph.collectives) need = largest(need, need_of(costed.call));
  for (const Message& message : graph.messages)
    need = largest(need, {message.size.count + kRounding, message.size.count + kRounding, 0});
  return need;
}

namespace {

/// The tokens of an operator whose rows each take `words` random words.
std::string too_many_words(const Operator& op, std::int64_t rows, std::int64_t words) {
  if (words * rows <= kWords) return "";
  return fmt::format("{}: {} tokens of a micro-batch are more than {}", op.name, rows, kWords / words);
}

}  // namespace

std::string refusal(const Operator& op, const Widths& widths) {
  if (std::holds_alternative<GemmShape>(op.shape)) {
    const Result<GemmProblem> problem = gemm_problem(op);
    return problem ? "" : to_string(problem.error());
  }
  if (std::holds_alternative<AttentionShape>(op.shape) && op.precision != Precision::bf16 &&
      op.precision != Precision::fp16)
    return fmt::format("{} {}: attention runs in bf16 here, not in {}", op.name, to_string(op.pass),
                       to_string(op.precision));
  const auto* const shape = std::get_if<ElementwiseShape>(&op.shape);
  if (op.kind == OperatorKind::embedding && shape != nullptr)
    return too_many_words(op, rows_of(shape->elements, widths.hidden).rows, 1);
  if (op.kind == OperatorKind::cross_entropy && shape != nullptr)
    return too_many_words(op, token_rows(shape->elements, widths).rows, 3);
  if (op.kind == OperatorKind::norm && widths.hidden > kWidestNorm)
    return fmt::format("{}: rows of {} are wider than {}", op.name, widths.hidden, kWidestNorm);
  return "";
}

std::string not_as_in_training(const Operator& op) {
  if (op.kind == OperatorKind::cross_entropy)
    return "the kernel here reads 16-bit logits once; a framework's moves several times as many bytes";
  if (op.kind == OperatorKind::rope || op.kind == OperatorKind::cast || op.name == "weight cast")
    return "the kernel here is not tuned; frameworks have faster ones";
  const std::string other = other_traffic(op, element_bytes(ElementType::bf16));
  return other.empty() ? "" : "the kernel here " + other;
}

namespace {

/// The model's table of words and its gradient, random words and their targets, scale factors and scratch.
std::int64_t table_bytes(const Widths& widths) {
  const std::int64_t table = widths.vocabulary * widths.hidden * (2 + 4);
  const std::int64_t norm_scratch = kNormBlocks * 2 * widths.hidden * 4;
  return table + norm_scratch + 2 * 4 * kWords;
}

}  // namespace

std::int64_t driver_bytes(const ByteNeed& need, const Widths& widths) {
  const std::int64_t narrow = need.narrow > 0 ? std::max(kRing, need.narrow) : 0;
  return std::max(kRing, need.inputs) + std::max(kRing, need.outputs) + narrow + table_bytes(widths) + kWorkspaces;
}

}  // namespace tracecast::cuda
