/// \file
/// Times of multiplications as benchmarks measure them.
///
/// A benchmark repeats one multiplication on a few copies of its operands. What fits into L2 stays there, narrow
/// formats are often timed together with the kernel that quantises A, and the measured library picks its kernels by
/// rules of its own. None of it is part of a training step, so that sim/cost leaves it out. Parameters:
/// GemmBenchmark, fitted by tools/accuracy/fit.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "sim/cost/costs.hpp"
#include "sim/cost/gemm.hpp"

namespace tracecast::accuracy {

/// A benchmark that runs one multiplication again and again, in turn on so many copies of its operands; none: each
/// comes from memory, as in a training step.
struct GemmLoop {
  int left = 0;   ///< copies of A
  int right = 0;  ///< copies of B
  int node = 0;   ///< 1 and -1: the first and the second of two nodes (GemmBenchmark::node_rate)
  auto operator<=>(const GemmLoop&) const = default;
};

/// Seconds of one isolated kernel in such a loop; the other parameters are gemm_seconds'.
double looped_gemm_seconds(GemmLoop loop, const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape,
                           GemmElements elements);

/// Costs of a GPU on which every multiplication runs in that loop.
Costs looped_costs(Profile profile, std::string attention_kernel, GemmLoop loop);

/// Seconds that a benchmark of the model's precision quantises A in: read in 16 bit, written as an operand. In a step
/// graph casts are operators of their own.
double quantisation_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements);

inline constexpr std::size_t kChoiceNodes = GemmBenchmark::kChoiceNodes;

/// A node of the grid that GemmBenchmark::choices is given on, and its share in a shape.
struct ChoiceNode {
  std::size_t index = 0;
  double share = 0;
};
/// The eight nodes around a shape, linear in log2 m, n and k; shapes outside the grid have those of its edge. The
/// grid has m of 1 to 32 thousand, n and k of 32 to 65 thousand, in steps of 4 to 16 times. Shares add up to 1.
std::array<ChoiceNode, 8> choice_nodes(const GemmShape& shape);

/// Time of a benchmark relative to what looped_gemm_seconds and quantisation_seconds say: a library picks its kernels
/// by rules that have little to do with which is the fastest, and differently for small shapes. 1 where the model has
/// no `choices`. Not part of a step: what trains is another library, or release, and in-training factors are defined
/// without it.
double choice_factor(const GemmModel& model, const GemmShape& shape);

}  // namespace tracecast::accuracy
