/// \file
/// What a lower board power costs, where it was measured in training. Else sim/cost/power_limit.hpp has the law.
#pragma once

namespace tracecast::accuracy {

/// GEMM time of an H100 that may draw 500 W, relative to the 700 W part (docs/references.md#in-training-factors).
inline constexpr double kH100With500W = 1.16;

}  // namespace tracecast::accuracy
