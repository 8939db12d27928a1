/// \file
/// Attention as a graph of multiplications, reductions and element-wise steps. cuDNN fuses exactly this pattern into one kernel.
/// Plain data, so that a test can compute it on a CPU and compare it with the definition of attention.
///
///   forward    S = Q K^T, scaled, masked; softmax row by row; O = P V; statistics = max + log(sum)
///   backward   P = exp(S - statistics), dV = P^T dO, dS = P (dO V^T - sum(dO O)) scaled, dK = dS^T Q, dQ = dS K
///
/// Tensors have four dimensions [b, heads, rows, columns]; with grouped queries, K and V have fewer heads, which are shared.
/// Source: the graph in cuDNN's documentation of fused flash attention. The engines recognise only this order of the steps (in the
/// backward the mask comes after the statistics); cudnn-frontend 1.x uses the same order.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/model/operators.hpp"

namespace tracecast::cuda {

enum class GraphType { bf16, fp32, int32, boolean };

struct GraphTensor {
  std::array<std::int64_t, 4> dims{1, 1, 1, 1};
  std::array<std::int64_t, 4> strides{1, 1, 1, 1};
  GraphType type = GraphType::fp32;
  bool is_virtual = false;  ///< not in memory
  bool by_value = false;    ///< a scalar argument of the call
  double value = 0;
};

enum class GraphAction {
  matmul,  ///< y = a b
  add,     ///< element-wise, dimensions of 1 are broadcast
  subtract,
  multiply,
  divide,
  exp,
  log,
  identity,
  row_index,  ///< y = row of the element
  column_index,
  at_least,    ///< y = a >= b
  above,       ///< y = a > b
  select,      ///< y = condition ? a : b
  reduce_max,  ///< over columns, or over heads if y has fewer heads
  reduce_sum,
  reshape,  ///< the same memory with the layout of y
};

struct GraphStep {
  GraphAction action = GraphAction::identity;
  int a = -1;  ///< indices of tensors; -1: none
  int b = -1;
  int condition = -1;
  int y = -1;
};

/// Tensors that the caller provides, by index; -1: not in this direction. `scratch` tensors are in memory, but only cuDNN uses them.
struct AttentionPorts {
  int q = -1, k = -1, v = -1, out = -1, statistics = -1, d_out = -1, d_q = -1, d_k = -1, d_v = -1;
};

struct AttentionGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphStep> steps;
  AttentionPorts ports;
  std::vector<int> scratch;
};

/// q, out [b, q_len, heads, d] and k, v [b, kv_len, kv_heads, d] as in kernels/cpu.hpp, log-sum-exp [b, heads, q_len].
/// A window needs a causal mask. `masked` false omits the causal mask and the window (used if cuDNN has no masked kernel).
AttentionGraph attention_graph(const AttentionShape& shape, bool forward, bool masked = true);

}  // namespace tracecast::cuda
