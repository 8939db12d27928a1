/// \file
/// Limits of the kernels, used to launch them and to compute their memory.
#pragma once

#include <cstdint>

namespace tracecast::cuda {

/// Backward of norms: two fp32 sums per column must fit the maximum shared memory of a block, 227 KiB.
inline constexpr std::int64_t kWidestNorm = 28'000;
inline constexpr int kNormBlocks = 264;  ///< for the backward of norms: two per SM of an H100 or H200

}  // namespace tracecast::cuda
