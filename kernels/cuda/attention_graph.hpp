/// \file
/// Attention as a graph of multiplications, reductions and element-wise steps: what cuDNN fuses into one kernel when it is
/// handed this very pattern. Plain data, so that a test can compute it on a CPU and hold it to the definition of attention.
///
///   forward    S = Q K^T, scaled, masked; softmax row by row; O = P V; statistics = max + log(sum)
///   backward   P = exp(S - statistics), dV = P^T dO, dS = P (dO V^T - sum(dO O)) scaled, dK = dS^T Q, dQ = dS K
///
/// Tensors have four dimensions [b, heads, rows, columns]; heads of K and V that are fewer are shared (grouped queries).
/// Source: the graph that cuDNN's documentation of fused flash attention prescribes; the order of the steps (in the backward
/// the mask comes after the statistics) is the one its engines recognise (cudnn-frontend 1.x does the same).
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
  bool is_virtual = false;  ///< never in memory
  bool by_value = false;    ///< a number, given with the call
  double value = 0;
};

enum class GraphAction {
  matmul,  ///< y = a b
  add,     ///< element by element, dimensions of 1 are spread
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
  reduce_max,  ///< over columns; over heads where y has fewer
  reduce_sum,
  reshape,  ///< the same memory, read as y says
};

struct GraphStep {
  GraphAction action = GraphAction::identity;
  int a = -1;  ///< indices of tensors; -1: none
  int b = -1;
  int condition = -1;
  int y = -1;
};

/// Tensors that the caller provides, by index; -1: not in this direction. `scratch` are in memory, but nobody reads them.
struct AttentionPorts {
  int q = -1, k = -1, v = -1, out = -1, statistics = -1, d_out = -1, d_q = -1, d_k = -1, d_v = -1;
};

struct AttentionGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphStep> steps;
  AttentionPorts ports;
  std::vector<int> scratch;
};

/// q, out [b, q_len, heads, d] and k, v [b, kv_len, kv_heads, d] as kernels/cpu.hpp has them, log-sum-exp [b, heads, q_len].
/// A window needs a causal mask. `masked` false leaves the causal mask and the window out (what is measured where cuDNN refuses the masked graph).
AttentionGraph attention_graph(const AttentionShape& shape, bool forward, bool masked = true);

}  // namespace tracecast::cuda
