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
/// A library whose kernels are picked from a list by the rows of A (GemmModel::tiles) neither takes the fastest tile nor
/// splits k; there
///   units  = batch roundup(ceil(m/tm), tiles that run together) ceil(n/tn),   g = 0,   l of the tile
/// and rows that are no multiple of 16 take tc a factor longer.
///
/// Benchmarks repeat one multiplication, on a few copies of its operands: what fits into L2 stays there (GemmLoop).
///
/// Left out: the order of tiles in L2, differences between operand layouts (a factor per pass, see GemmModel), choices of the
/// library that are not the fastest.
/// Source: docs/references.md#gemm-fit, with more splits and the latency; fitted parameters and residuals are in the
/// profile.
#pragma once

#include <array>
#include <cstddef>
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

/// A benchmark that runs one multiplication again and again, in turn on so many copies of its operands; none: each
/// comes from memory, as in a training step.
struct GemmLoop {
  int left = 0;   ///< copies of A
  int right = 0;  ///< copies of B
  int node = 0;   ///< 1 and -1: the first and the second of two nodes (GemmModel::node_rate)
};

/// Seconds of one isolated kernel in the forward layout (`batch` multiplications together).
/// Requires m, n, k, batch >= 1.
double gemm_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements,
                    GemmLoop loop = {});

/// Seconds that a benchmark of the model's precision quantises A in: read in 16 bit, written as an operand. In a step graph
/// casts are operators of their own.
double quantisation_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements);

/// A node of the grid that GemmModel::choices is given on, and its share in a shape.
struct ChoiceNode {
  std::size_t index = 0;
  double share = 0;
};
/// Nodes of `choices`: m of 1 to 32 thousand, n and k of 32 to 65 thousand, in steps of 4 to 16 times.
inline constexpr std::size_t kChoiceNodes = std::size_t{6} * 6 * 5;
/// The eight nodes around a shape, linear in log2 m, n and k; shapes outside the grid have those of its edge. Shares add up to 1.
std::array<ChoiceNode, 8> choice_nodes(const GemmShape& shape);

/// Time of a benchmark relative to what gemm_seconds and quantisation_seconds say: a library picks its kernels by rules that have
/// little to do with which is the fastest, and differently for small shapes. 1 where the model has no `choices`.
/// Not part of a step: what trains is another library, or release, and in-training factors are defined without it.
double choice_factor(const GemmModel& model, const GemmShape& shape);

}  // namespace tracecast
