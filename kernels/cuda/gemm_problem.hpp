/// \file
/// Describes a multiplication of the step graph for cuBLASLt. Plain data, so that tests need no library.
///
/// cuBLASLt counts columns first, the step graph rows: C[m,n] = A B row by row is C'[n,m] = B' A' column by column, so the
/// library's first operand is our B. Eight-bit operands must both be stored with k innermost ("TN"). Their passes all use the
/// layout of the forward, since training keeps transposed copies (as Transformer Engine does).
/// Source: cuBLAS 13.0 documentation, cublasLtMatmul: supported types, scaling modes.
#pragma once

#include <cstdint>

#include "kernels/operands.hpp"
#include "sim/base/result.hpp"

namespace tracecast::cuda {

enum class ElementType { fp32, fp16, bf16, e4m3, e5m2 };
std::int64_t element_bytes(ElementType type);

/// One scale per tensor, per 128 elements along k, or per 128 x 128 elements.
enum class Scaling { none, tensor, vector128, block128 };

/// A stored operand: `rows` x `columns`, column-major, columns `pitch` elements apart.
struct GemmOperand {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t pitch = 0;
  bool transposed = false;
  ElementType type = ElementType::bf16;
  Scaling scaling = Scaling::none;
  std::int64_t elements() const { return rows * columns; }
  /// Number of fp32 scale factors, rounded up for every layout.
  std::int64_t scales() const;
  bool operator==(const GemmOperand&) const = default;
};

struct GemmProblem {
  GemmOperand first;   ///< B of the step graph
  GemmOperand second;  ///< A of the step graph
  GemmOperand result;
  std::int64_t depth = 0;  ///< k
  std::int64_t batch = 1;
  bool accumulate = false;  ///< adds to the result
  /// Sums fp8 products with fewer bits, as Transformer Engine's forward does with one scale per tensor.
  bool fast_accumulation = false;
  bool operator==(const GemmProblem&) const = default;
};

/// Requires a GemmShape. Errors: a precision that Hopper does not support (mxfp8, nvfp4), or a size that the 8-bit formats do
/// not support (k, m and n must be multiples of 16).
Result<GemmProblem> gemm_problem(const Operator& op);

}  // namespace tracecast::cuda
