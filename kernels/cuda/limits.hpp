/// \file
/// Limits of our own kernels, for those who launch them and those who only reckon with them.
#pragma once

#include <cstdint>

namespace tracecast::cuda {

/// Backward of norms: two fp32 sums of each column lie in the 227 KiB of shared memory that a block can have.
inline constexpr std::int64_t kWidestNorm = 28'000;
inline constexpr int kNormBlocks = 264;  ///< of the backward of norms: two for each SM of an H100 or H200

}  // namespace tracecast::cuda
