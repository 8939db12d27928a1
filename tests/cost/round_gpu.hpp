/// \file
/// A GPU of round numbers, and multiplications that lose nothing on it.
#pragma once

#include "sim/cost/gemm.hpp"

namespace tracecast::test {

/// 100 SMs of 1e12 FLOP/s, memory that is never in the way.
inline constexpr GpuPeak kRoundGpu{100e12, 1e15, 100};

/// Whole waves, nothing lost anywhere else.
inline GemmModel whole_waves() { return {.efficiency = 1, .norm = 8}; }

}  // namespace tracecast::test
