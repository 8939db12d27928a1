/// \file
/// Time of a matrix multiplication on a GPU's tensor cores: whole tiles, in waves over the SMs, with split-K.
///
/// For every tile (tm x tn) and split s of k (1 to 64):
///   units  = batch ceil(m/tm) ceil(n/tn) s            thread blocks
///   waves  = units / SMs,   w = a ceil(waves) + (1-a) max(waves, 1)
///   tk     = max(2 tm tn / (P/SMs e' (tm tn / 32768)^g), l / 64)      one step along k
///   tc     = w tk (ceil32(k/s) + k0)
///   tm     = (compulsory + r re-read + 4 m n s [s > 1]) / (B f)
///   t      = t0 + (tc^q + tm^q)^(1/q) + c [s > 1]
/// and the library picks the fastest. l is what 64 of k take at the least, however small the tile: the latency of its operands
/// over the stages in flight, and of the multiplication itself. e' = e (FLOPs / knee)^-p above the knee: long kernels lose
/// clock to the power limit. Batched and grouped multiplications fill the waves together. Bytes of the result, among the
/// compulsory ones, have a weight of their own.
///
/// Example. 100 SMs with P = 100 TFLOP/s together, B = 1 TB/s; e = f = a = 1, l = k0 = t0 = r = 0, q = 8. m, n, k = 2560, 1280,
/// 4096 in 16 bit, tile 256 x 128, s = 1: units = 10 x 10 = 100, one wave; tk = 2 x 256 x 128 / 1e12 = 65.5 ns; tc = 65.5 ns x
/// 4096 = 268 us; tm = 38.0 MB / 1 TB/s = 38 us; t = (268^8 + 38^8)^(1/8) = 268 us. One row more makes 110 units and two waves:
/// tc = 537 us with this tile, and a smaller tile is the fastest.
///
/// A library whose kernels are picked from a list by the rows of A (GemmModel::tiles) neither takes the fastest tile nor
/// splits k; there
///   units  = batch roundup(ceil(m/tm), tiles that run together) ceil(n/tn),   g = 0,   l of the tile
/// and rows that are no multiple of 16 take tc a factor longer.
///
/// Left out: the order of tiles in L2, differences between operand layouts (a factor per pass, see GemmModel), choices of the
/// library that are not the fastest.
/// Source: docs/references.md#gemm-fit, with more splits and the latency; fitted parameters and residuals are in the
/// profile.
#pragma once

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

/// Bytes of A, B and C that a kernel must move, batch included. C has the model's result_weight; a kernel that accumulates reads
/// and writes it.
struct OperandBytes {
  double left = 0;
  double right = 0;
  double result = 0;
  double sum() const { return left + right + result; }
};
OperandBytes operand_bytes(const GemmModel& model, const GemmShape& shape, GemmElements elements);

/// Seconds of one isolated kernel in the forward layout (`batch` multiplications together); every operand comes from memory.
/// Requires m, n, k, batch >= 1.
double gemm_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements);

/// What differs from that where the operands are partly in L2, or a GPU is faster than others of its kind.
struct GemmConditions {
  double memory_bytes = 0;  ///< in place of operand_bytes().sum()
  double rate = 1;          ///< of the tensor cores, relative to the model's
};
double gemm_seconds_under(const GemmConditions& conditions, const GemmModel& model, const GpuPeak& gpu,
                          const GemmShape& shape, GemmElements elements);

}  // namespace tracecast
