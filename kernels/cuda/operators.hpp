/// \file
/// The operators with kernels in this folder. They correspond to kernels/cpu.hpp and have the same shapes and meanings.
/// Activations and logits are bf16, statistics and optimizer state fp32; sums are computed in fp32.
///
/// All functions only launch on `stream`. Every output is written completely and nothing else is modified. Pointers must be
/// aligned to 16 bytes; accesses are 16 bytes wide if counts and widths are multiples of 8.
/// Matrix multiplications use cuBLASLt (gemm.hpp), attention uses cuDNN (attention.hpp).
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include "kernels/adam.hpp"
#include "kernels/cuda/limits.hpp"

namespace tracecast::cuda {

using Bf16 = __nv_bfloat16;

/// Random nonzero values in [-1, 1); read as fp32 (two bf16 per float) they are in [-1, 1) too.
void fill_random(std::int64_t count, std::uint64_t seed, Bf16* values, cudaStream_t stream);
/// Random e4m3 values without NaN.
void fill_random_fp8(std::int64_t count, std::uint64_t seed, std::uint8_t* values, cudaStream_t stream);
/// Random fp32 in (0, 1].
void fill_random_positive(std::int64_t count, std::uint64_t seed, float* values, cudaStream_t stream);
void fill(std::int64_t count, float value, float* values, cudaStream_t stream);
/// Random row indices in [0, below).
void fill_random_ids(std::int64_t count, std::int64_t below, std::uint64_t seed, std::int32_t* ids,
                     cudaStream_t stream);

/// statistics [rows, 2]: mean (0 for RMSNorm) and 1 / deviation.   Requires width <= kWidestNorm.
void rms_norm_forward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, Bf16* y,
                      float* statistics, cudaStream_t stream);
void layer_norm_forward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, const Bf16* bias,
                        Bf16* y, float* statistics, cudaStream_t stream);
/// d_weight and d_bias [width] fp32 are summed over the rows. `partial` [kNormBlocks, 2, width] is scratch memory.
/// d_bias nullptr: RMSNorm.
void norm_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, const float* statistics,
                   const Bf16* d_y, Bf16* d_x, float* d_weight, float* d_bias, float* partial, cudaStream_t stream);

void rope(std::int64_t rows, std::int64_t width, std::int64_t heads, std::int64_t positions, bool backward,
          const Bf16* x, Bf16* y, cudaStream_t stream);
void swiglu_forward(std::int64_t rows, std::int64_t width, const Bf16* x, Bf16* y, cudaStream_t stream);
void swiglu_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* d_y, Bf16* d_x,
                     cudaStream_t stream);
void gelu_forward(std::int64_t count, const Bf16* x, Bf16* y, cudaStream_t stream);
void gelu_backward(std::int64_t count, const Bf16* x, const Bf16* d_y, Bf16* d_x, cudaStream_t stream);
void add(std::int64_t count, const Bf16* a, const Bf16* b, Bf16* y, cudaStream_t stream);
/// mask: one byte per element, zero or nonzero.
void dropout_add(std::int64_t count, float probability, const Bf16* x, const Bf16* residual, const std::uint8_t* mask,
                 Bf16* y, cudaStream_t stream);
void dropout_backward(std::int64_t count, float probability, const Bf16* d_y, const std::uint8_t* mask, Bf16* d_x,
                      cudaStream_t stream);

/// Row-wise, without a mask.
void softmax_forward(std::int64_t rows, std::int64_t width, float scale, const Bf16* x, Bf16* y, cudaStream_t stream);
void softmax_backward(std::int64_t rows, std::int64_t width, float scale, const Bf16* y, const Bf16* d_y, Bf16* d_x,
                      cudaStream_t stream);

void cross_entropy_forward(std::int64_t rows, std::int64_t width, std::int64_t first, const Bf16* logits,
                           const std::int32_t* targets, float* statistics, cudaStream_t stream);
void cross_entropy_backward(std::int64_t rows, std::int64_t width, std::int64_t first, float scale, const Bf16* logits,
                            const std::int32_t* targets, const float* statistics, Bf16* d_logits, cudaStream_t stream);

void embedding_forward(std::int64_t rows, std::int64_t width, const Bf16* table, const std::int32_t* ids, Bf16* y,
                       cudaStream_t stream);
/// d_table is fp32 and updated by atomic additions.
void embedding_backward(std::int64_t rows, std::int64_t width, const Bf16* d_y, const std::int32_t* ids, float* d_table,
                        cudaStream_t stream);
void permute_rows(std::int64_t rows, std::int64_t width, const Bf16* x, const std::int32_t* order, Bf16* y,
                  cudaStream_t stream);

/// AdamW in place, fused over all parameters; `narrow`: bf16 copy of the weights; nullptr: none.
void adam(std::int64_t count, const AdamSettings& settings, const float* gradient, float* weight, float* first_moment,
          float* second_moment, Bf16* narrow, cudaStream_t stream);
/// velocity nullptr: plain SGD.
void sgd(std::int64_t count, float learning_rate, float momentum, const float* gradient, float* weight, float* velocity,
         Bf16* narrow, cudaStream_t stream);
/// *sum (one double on the device) = sum of squares; set to 0 first.
void squared_norm(std::int64_t count, const float* x, double* sum, cudaStream_t stream);
void scale(std::int64_t count, float factor, float* x, cudaStream_t stream);
/// Casts x * factor to e4m3 with saturation; `transposed` [width, rows] gets the transposed result, nullptr: none.
void quantise(std::int64_t rows, std::int64_t width, float factor, const Bf16* x, std::uint8_t* y,
              std::uint8_t* transposed, cudaStream_t stream);
void to_bf16(std::int64_t count, const float* x, Bf16* y, cudaStream_t stream);

}  // namespace tracecast::cuda
