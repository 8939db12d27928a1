/// \file
/// Operands of operators on any device: row widths of element-wise work, layouts of multiplications, sizes of attention
/// tensors. The CPU and GPU drivers share them, so that both do the same work for an operator.
#pragma once

#include <cstdint>
#include <string>

#include "sim/model/model.hpp"
#include "sim/model/operators.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// Row widths of element-wise operators, whose shapes are only element counts.
struct Widths {
  std::int64_t hidden = 1;
  std::int64_t head_dim = 1;
  std::int64_t heads = 1;
  std::int64_t sequence = 1;
  std::int64_t tokens = 1;  ///< per micro-batch and rank
  std::int64_t vocabulary = 1;
};
Widths widths_of(const Model& model, const Plan& plan);

/// Elements as whole rows.
struct Rows {
  std::int64_t rows = 1;
  std::int64_t width = 1;
};
Rows rows_of(std::int64_t elements, std::int64_t width);
/// One row per token.
Rows token_rows(std::int64_t elements, const Widths& widths);
/// Rows of a norm: "qk_norm" normalises each head separately, other norms whole tokens.
Rows norm_rows(const Operator& op, std::int64_t elements, const Widths& widths);

inline bool is_forward(const Operator& op) { return op.pass == Pass::forward; }

/// Which operands of C[m,n] = A B are stored transposed.
///   forward layout  Y = X W^T    X [m,k], W [n,k]
///   dgrad           dX = dY W    dY [m,k], W [k,n]
///   wgrad           dW = dY^T X  dY [k,m], X [k,n]
enum class GemmLayout { normal_transposed, normal_normal, transposed_normal };
GemmLayout layout_of(Pass pass);
/// Layout of a multiplication of the step graph, including those of unfused attention.
GemmLayout layout_of(const Operator& op);

/// Element counts of attention tensors.
struct AttentionSizes {
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t value = 0;
  std::int64_t out = 0;
  std::int64_t statistics = 0;  ///< log-sum-exp of each row, fp32
};
AttentionSizes sizes_of(const AttentionShape& shape);

/// State that an optimizer pass keeps per parameter, derived from the traffic of the operator
/// (docs/references.md#elementwise-bytes: 12 bytes for SGD, 20 with momentum, 28 for Adam, 2 more for a 16-bit copy of
/// the weights).
enum class UpdateKind { sgd, momentum, adam };
struct Update {
  UpdateKind kind = UpdateKind::adam;
  bool narrow_copy = false;
};
Update update_of(const ElementwiseShape& shape);

/// Whether a cast to 8 bits also writes a transposed copy, as its traffic says (quantise() of sim/graph/linear_layer.hpp).
bool casts_twice(const ElementwiseShape& shape);

/// Bytes that the kernel of this program moves for each element of an element-wise operator. `element_size`: of activations, 2 on GPUs
/// and 4 on CPUs.
///   norm 2e, backward 3e; GeLU 2e, 3e; SwiGLU 3e, 5e of its outputs; softmax, loss 2e, 3e and e, 2e; a sum of two 3e; dropout one byte more
///   embedding 2e, backward e and an addition in fp32; optimizer as update_of() and 4 of each fp32 value; cast to 8 bits e and 1 per copy
///   RoPE, permutations and copies 2e
std::int64_t bytes_per_element(const Operator& op, std::int64_t element_size);

/// How the kernel of this program differs from the operator of the step graph: "moves 4 bytes per element, the operator 36". "" if it
/// moves as many, within a fourth. A framework's chain of kernels is one operator in the graph, and one fused kernel here.
std::string other_traffic(const Operator& op, std::int64_t element_size);

}  // namespace tracecast
