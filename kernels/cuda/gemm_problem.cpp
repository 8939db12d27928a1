#include "kernels/cuda/gemm_problem.hpp"

#include <fmt/format.h>

#include "sim/base/integers.hpp"

namespace tracecast::cuda {
namespace {

constexpr std::int64_t kNarrowMultiple = 16;  // bytes: cuBLASLt's alignment of fp8 operands
constexpr std::int64_t kScaleBlock = 128;

/// A stored matrix of `outer` runs of `inner` elements: column-major `inner` x `outer`.
GemmOperand stored(std::int64_t inner, std::int64_t outer, bool transposed, ElementType type, Scaling scaling) {
  return {inner, outer, inner, transposed, type, scaling};
}

struct Types {
  ElementType a;
  ElementType b;
  ElementType result;
};

Types types_of(const Operator& op, const GemmShape& shape) {
  switch (op.precision) {
    case Precision::fp32:
      return {ElementType::fp32, ElementType::fp32, ElementType::fp32};
    case Precision::fp16:
      return {ElementType::fp16, ElementType::fp16, shape.accumulate_fp32 ? ElementType::fp32 : ElementType::fp16};
    case Precision::fp8:
    case Precision::fp8_block: {
      // Gradients are e5m2, weights and activations e4m3; with block scales all are e4m3 (DeepSeek-V3 3.3).
      const bool gradient = op.precision == Precision::fp8 && !is_forward(op);
      return {gradient ? ElementType::e5m2 : ElementType::e4m3, ElementType::e4m3,
              shape.accumulate_fp32 ? ElementType::fp32 : ElementType::bf16};
    }
    default:
      return {ElementType::bf16, ElementType::bf16, shape.accumulate_fp32 ? ElementType::fp32 : ElementType::bf16};
  }
}

/// Weights are scaled by blocks and the other operand along k; two activations (wgrad) are both scaled along k.
struct Scalings {
  Scaling a = Scaling::none;
  Scaling b = Scaling::none;
};
Scalings scalings_of(const Operator& op) {
  if (op.precision == Precision::fp8) return {Scaling::tensor, Scaling::tensor};
  if (op.precision != Precision::fp8_block) return {};
  return {Scaling::vector128, op.pass == Pass::wgrad ? Scaling::vector128 : Scaling::block128};
}

Result<void> check_narrow(const Operator& op, const GemmShape& shape) {
  if (op.precision == Precision::mxfp8 || op.precision == Precision::nvfp4)
    return fail(fmt::format("{} {}: {} multiplications are not supported, Hopper has none", op.name, to_string(op.pass),
                            to_string(op.precision)));
  const bool fits = shape.m % kNarrowMultiple == 0 && shape.n % kNarrowMultiple == 0 && shape.k % kNarrowMultiple == 0;
  if (fits) return {};
  return fail(fmt::format("{} {}: {} x {} x {} in {}: each size must be a multiple of {}", op.name, to_string(op.pass),
                          shape.m, shape.n, shape.k, to_string(op.precision), kNarrowMultiple));
}

}  // namespace

std::int64_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return 4;
    case ElementType::fp16:
    case ElementType::bf16:
      return 2;
    default:
      return 1;
  }
}

std::int64_t GemmOperand::scales() const {
  // Column counts are padded to 4 in cuBLASLt's layouts of 128-element scales.
  const std::int64_t along = ceil_div(rows, kScaleBlock);
  switch (scaling) {
    case Scaling::none:
      return 0;
    case Scaling::tensor:
      return 1;
    case Scaling::vector128:
      return along * ceil_div(columns, 4) * 4;
    case Scaling::block128:
      return ceil_div(along, 4) * 4 * ceil_div(columns, kScaleBlock);
  }
  return 0;
}

Result<GemmProblem> gemm_problem(const Operator& op) {
  const GemmShape& shape = std::get<GemmShape>(op.shape);
  const bool narrow = is_narrow(op.precision);
  if (narrow)
    if (const Result<void> possible = check_narrow(op, shape); !possible) return tl::unexpected(possible.error());
  const GemmLayout layout = narrow ? GemmLayout::normal_transposed : layout_of(op);
  const Types types = types_of(op, shape);
  const Scalings scalings = scalings_of(op);
  GemmProblem problem;
  problem.first = layout == GemmLayout::normal_transposed ? stored(shape.k, shape.n, true, types.b, scalings.b)
                                                          : stored(shape.n, shape.k, false, types.b, scalings.b);
  problem.second = layout == GemmLayout::transposed_normal ? stored(shape.m, shape.k, true, types.a, scalings.a)
                                                           : stored(shape.k, shape.m, false, types.a, scalings.a);
  problem.result = stored(shape.n, shape.m, false, types.result, Scaling::none);
  problem.depth = shape.k;
  problem.batch = shape.batch;
  problem.accumulate = shape.accumulate_fp32;
  problem.fast_accumulation = narrow && op.pass == Pass::forward && problem.first.scaling == Scaling::tensor;
  return problem;
}

}  // namespace tracecast::cuda
