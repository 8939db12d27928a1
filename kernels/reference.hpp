/// \file
/// The operators of a step graph in double precision, written after their definitions. The CPU and GPU kernels are tested
/// against them. Deliberately simple and slow. Shapes and meanings as in kernels/cpu.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/operands.hpp"

namespace tracecast::reference {

using Doubles = std::vector<double>;

/// `c`: added to the result; empty: none.
Doubles gemm(GemmLayout layout, const GemmShape& shape, const Doubles& a, const Doubles& b, const Doubles& c = {});

struct AttentionResult {
  Doubles out;
  Doubles log_sum_exp;
};
AttentionResult attention(const AttentionShape& shape, const Doubles& q, const Doubles& k, const Doubles& v);
struct AttentionGradient {
  Doubles d_q;
  Doubles d_k;
  Doubles d_v;
};
AttentionGradient attention_gradient(const AttentionShape& shape, const Doubles& q, const Doubles& k, const Doubles& v,
                                     const Doubles& d_out);

struct NormSettings {
  bool layer = false;  ///< LayerNorm, else RMSNorm
  double epsilon = 1e-5;
};
/// statistics [rows, 2]: mean (0 for RMSNorm), 1 / deviation.
struct NormResult {
  Doubles y;
  Doubles statistics;
};
NormResult norm(const Rows& shape, const NormSettings& settings, const Doubles& x, const Doubles& weight,
                const Doubles& bias);
struct NormGradient {
  Doubles d_x;
  Doubles d_weight;
  Doubles d_bias;
};
NormGradient norm_gradient(const Rows& shape, const NormSettings& settings, const Doubles& x, const Doubles& weight,
                           const Doubles& statistics, const Doubles& d_y);

Doubles rope(const Rows& shape, std::int64_t heads, std::int64_t positions, bool backward, const Doubles& x);
Doubles swiglu(const Rows& shape, const Doubles& x);
Doubles swiglu_gradient(const Rows& shape, const Doubles& x, const Doubles& d_y);
Doubles gelu(const Doubles& x);
Doubles gelu_gradient(const Doubles& x, const Doubles& d_y);
Doubles softmax(const Rows& shape, double scale, const Doubles& x);
Doubles softmax_gradient(const Rows& shape, double scale, const Doubles& y, const Doubles& d_y);

/// [rows, 3]: maximum, sum of exp(x - maximum), logit of the target if it is among these columns.
Doubles cross_entropy(const Rows& shape, std::int64_t first, const Doubles& logits,
                      const std::vector<std::int32_t>& targets);
Doubles cross_entropy_gradient(const Rows& shape, std::int64_t first, double scale, const Doubles& logits,
                               const std::vector<std::int32_t>& targets, const Doubles& statistics);

}  // namespace tracecast::reference
