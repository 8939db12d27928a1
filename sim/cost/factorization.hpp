/// \file
/// Time of the factorisations of preconditioners (Shampoo, SOAP): a roofline of the blocked algorithms, which this project has not
/// measured.
///
///   t = FLOPs / (e P)  +  bytes / (f B)  +  n columns x latency       in one step of `interval`, one matrix after another
///
/// FLOPs and bytes are those of operators.hpp, P the fp32 rate without tensor cores. A factorisation goes through its columns one
/// after another, each at least one launch and one reduction over the column: kEigenSecondsPerColumn and kQrSecondsPerColumn. These, e = 0.5
/// and f = 0.5 are assumed. cuSOLVER's Cholesky on H100 takes 1 us per column at n = 2,048 (docs/references.md#preconditioners), and QR and the
/// tridiagonal have a product with the rest of the matrix beside it.
/// Left out: batches of small matrices, which run beside each other; libraries that divide a matrix over GPUs.
#pragma once

#include "sim/cost/scan.hpp"

namespace tracecast {

inline constexpr double kEigenSecondsPerColumn = 10e-6;
inline constexpr double kQrSecondsPerColumn = 4e-6;

/// Seconds in the mean step.   Requires a FactorizationShape with all sizes >= 1
double factorization_seconds(const GpuPeak& gpu, const Operator& op);

}  // namespace tracecast
