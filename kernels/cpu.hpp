/// \file
/// The operators of a step graph on a CPU: fp32, one thread, row-major. They correspond to the CUDA kernels. The CPU executor
/// runs them and `tracecast profile --device cpu` times them.
///
/// Every output is written completely and nothing else is modified; inputs must not overlap outputs. Matrix multiplications use
/// OpenBLAS, everything else is plain C++ that the compiler vectorises.
/// Leaves out: 16-bit and narrower arithmetic (a CPU computes every precision in fp32).
#pragma once

#include <cstdint>

#include "kernels/adam.hpp"
#include "kernels/operands.hpp"

namespace tracecast::cpu {

/// `shape.batch` multiplications, one after the other in memory. `shape.accumulate_fp32`: C += A B instead of C = A B.
void gemm(GemmLayout layout, const GemmShape& shape, const float* a, const float* b, float* c);

/// Fused attention: scores are computed for one tile of queries at a time and not stored.
///
/// q [b, q_len, heads, qk_dim], k [b, kv_len, kv_heads, qk_dim], v [b, kv_len, kv_heads, v_dim], out and its gradient
/// [b, q_len, heads, v_dim]; log_sum_exp [b, heads, q_len]. If causal, query i sees keys up to i + kv_len - q_len, and
/// of those only the last `window` (0: all). Scores are scaled by 1 / sqrt(qk_dim).
/// Requires heads divisible by kv_heads; causal with kv_len >= q_len.
void attention_forward(const AttentionShape& shape, const float* q, const float* k, const float* v, float* out,
                       float* log_sum_exp);
void attention_backward(const AttentionShape& shape, const float* q, const float* k, const float* v, const float* out,
                        const float* log_sum_exp, const float* d_out, float* d_q, float* d_k, float* d_v);

/// y = x / rms(x) * weight over rows of `width`; `inverse_rms` [rows] is stored for the backward.
void rms_norm_forward(std::int64_t rows, std::int64_t width, const float* x, const float* weight, float* y,
                      float* inverse_rms);
/// d_weight [width] is summed over the rows.
void rms_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                       const float* inverse_rms, const float* d_y, float* d_x, float* d_weight);

/// y = (x - mean) / deviation * weight + bias; `statistics` [rows, 2]: mean and 1 / deviation.
void layer_norm_forward(std::int64_t rows, std::int64_t width, const float* x, const float* weight, const float* bias,
                        float* y, float* statistics);
void layer_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                         const float* statistics, const float* d_y, float* d_x, float* d_weight, float* d_bias);

/// Rotates adjacent pairs of `width` by position x base^(-2 i / width), base 10,000; the position of row r is
/// (r / heads) mod `positions`. Backward rotates back.
void rope(std::int64_t rows, std::int64_t width, std::int64_t heads, std::int64_t positions, bool backward,
          const float* x, float* y);

/// y[r, i] = silu(x[r, i]) x[r, width + i]; x [rows, 2 width].
void swiglu_forward(std::int64_t rows, std::int64_t width, const float* x, float* y);
void swiglu_backward(std::int64_t rows, std::int64_t width, const float* x, const float* d_y, float* d_x);
/// The tanh approximation, as in GPT-2.
void gelu_forward(std::int64_t count, const float* x, float* y);
void gelu_backward(std::int64_t count, const float* x, const float* d_y, float* d_x);

/// y = a + b.
void add(std::int64_t count, const float* a, const float* b, float* y);
/// y = residual + x mask / (1 - probability); mask holds 0 or 1.
void dropout_add(std::int64_t count, float probability, const float* x, const float* residual, const float* mask,
                 float* y);
/// d_x = d_y mask / (1 - probability).
void dropout_backward(std::int64_t count, float probability, const float* d_y, const float* mask, float* d_x);

/// Row-wise softmax of x * scale; with `causal` row r of a matrix of `rows` sees `width - rows + r + 1` columns, others get 0.
/// `batch` matrices [rows, width].
void softmax_forward(std::int64_t batch, std::int64_t rows, std::int64_t width, float scale, bool causal,
                     const float* x, float* y);
void softmax_backward(std::int64_t batch, std::int64_t rows, std::int64_t width, float scale, const float* y,
                      const float* d_y, float* d_x);

/// One rank's part of the loss over a vocabulary split over ranks; this rank has columns [first, first + width).
/// statistics [rows, 3]: maximum, sum of exp(x - maximum), logit of the target if this rank has it (else 0). The following
/// collectives reduce the three over the ranks (maximum, rescaled sum, sum).
void cross_entropy_forward(std::int64_t rows, std::int64_t width, std::int64_t first, const float* logits,
                           const std::int32_t* targets, float* statistics);
/// d_logits = (softmax - [column is the target]) scale, from the reduced statistics.
void cross_entropy_backward(std::int64_t rows, std::int64_t width, std::int64_t first, float scale, const float* logits,
                            const std::int32_t* targets, const float* statistics, float* d_logits);

/// y[r] = table[ids[r]]; ids in [0, vocabulary).
void embedding_forward(std::int64_t rows, std::int64_t width, const float* table, const std::int32_t* ids, float* y);
/// d_table[ids[r]] += d_y[r].
void embedding_backward(std::int64_t rows, std::int64_t width, const float* d_y, const std::int32_t* ids,
                        float* d_table);

/// AdamW in place: moments, then weight -= learning_rate (m^ / (sqrt(v^) + epsilon) + weight_decay weight).
/// `narrow`: 16-bit copy of the weights (bf16, rounded to nearest even); nullptr: none.
void adam(std::int64_t count, const AdamSettings& settings, const float* gradient, float* weight, float* first_moment,
          float* second_moment, std::uint16_t* narrow);
/// weight -= learning_rate velocity with velocity = momentum velocity + gradient; velocity nullptr: plain SGD.
void sgd(std::int64_t count, float learning_rate, float momentum, const float* gradient, float* weight,
         float* velocity);
/// Sum of squares, in double.
double squared_norm(std::int64_t count, const float* x);
/// x *= factor, in place; factor 0 sets to 0.
void scale(std::int64_t count, float factor, float* x);

/// To bf16, rounded to nearest even; NaN stays NaN.
void to_bf16(std::int64_t count, const float* x, std::uint16_t* y);
/// y[r] = x[order[r]].
void permute_rows(std::int64_t rows, std::int64_t width, const float* x, const std::int32_t* order, float* y);

}  // namespace tracecast::cpu
