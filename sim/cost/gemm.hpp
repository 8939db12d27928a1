/// Time of a matrix multiplication on a GPU's tensor cores: whole tiles, in waves over the SMs, with split-K.
///
/// For every tile (tm x tn) and split s of k (1 to 16):
///   units  = batch ceil(m/tm) ceil(n/tn) s            thread blocks
///   waves  = units / SMs,   w = a ceil(waves) + (1-a) max(waves, 1)
///   tc     = w 2 tm tn (ceil64(k/s) + k0) / (P/SMs e' (tm tn / 32768)^g)
///   tm     = (compulsory + r re-read + 4 m n s [s > 1]) / (B f sqrt(min(1, waves)))
///   t      = t0 + (tc^q + tm^q)^(1/q) + c [s > 1]
/// and the library picks the fastest. e' = e (FLOPs / knee)^-p above the knee: long kernels lose clock to the power limit.
/// Batched and grouped multiplications fill the waves together.
///
/// Left out: the order of tiles in L2, differences between operand layouts (a factor per pass, see GemmModel).
/// Source: CALIBRATION.md 1, the third form, with more splits; fitted parameters and residuals are in the profile.
#pragma once

#include <cstdint>

#include "sim/cost/profile.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

/// What a kernel runs on: the peaks of one precision.
struct GpuPeak {
  double flops = 0;      ///< dense FLOP/s
  double bandwidth = 0;  ///< memory, bytes/s
  int sms = 0;
};

/// Bytes of one element of A, B and C as a GEMM of this precision reads and writes it; block formats include scales.
struct GemmElements {
  double operand = 2;
  double result = 2;
};
GemmElements gemm_elements(Precision precision);

/// Seconds of one isolated kernel in the forward layout (`batch` multiplications together).
/// Requires m, n, k, batch >= 1.
double gemm_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements);

}  // namespace tracecast
