/// \file
/// Time of chunked linear attention (Mamba-2, gated delta net, Kimi delta attention): a roofline of the published kernels, which
/// this project has not measured.
///
///   t = t0 + max( FLOPs / (e P),  chain / (e P/SMs),  bytes / (f B) )
///
/// FLOPs and bytes are those of operators.hpp. chain: with the delta rule one thread block walks through the chunks of a head
/// one after another, W times state and the new state in each; Mamba-2 has sums there instead of products. e = 0.3 and f = 0.5
/// are between what published times of flash-linear-attention ask for: f is 0.64 on an RTX 5090 and 0.4 or less on GB200, and on
/// H20 e decides. Of Mamba-2 only its forward on an H100 was found, which asks for f = 0.33 to 0.41, on average 0.37
/// (tests/cost/scan_test.cpp has the times). The spread says how little that is.
/// Left out: how a state is divided over thread blocks, products in fp32, latencies between the kernels but for t0.
/// Source: docs/references.md#linear-attention
#pragma once

#include "sim/cost/gemm.hpp"
#include "sim/cost/profile.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

/// Seconds that the launches of an unmeasured group of kernels take: t0, five to six kernels of about 3 us.
inline constexpr double kUnmeasuredStart = 15e-6;

/// The fit that the cost of a kernel carries which was never measured: no samples, and a wide residual.
const Fit& unmeasured_fit();

/// Seconds of the kernels of one isolated scan.   Requires all sizes >= 1
double scan_seconds(const GpuPeak& gpu, const Operator& op);

}  // namespace tracecast
