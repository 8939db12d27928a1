/// \file
/// What tells two runs apart when the error of one says something about the other's. All of it comes from the scenarios that the
/// rows stand for, so that spelling and what a table leaves out do not matter.
#pragma once

#include <array>
#include <string>

#include "tools/accuracy/rows/row_scenario.hpp"

namespace tracecast::accuracy {

struct RunTraits {
  std::string gpu;        ///< profile: "a100-40gb"
  bool experts = false;   ///< kind of model
  std::string precision;  ///< of the multiplications, with the scales of fp8
  /// Recomputation, software, compilation and graphs, schedule, ZeRO stage; "": none.
  std::array<std::string, 5> levers;
  std::array<double, 9> doublings{};  ///< log2 of size, length, micro-batch, tp, pp, cp, ep, GPUs, micro-batches
};

RunTraits run_traits(const RowScenario& row);

/// Root of the sum of squares of the differences in doublings: a half of each for size, length, micro-batch and degrees, a quarter for
/// GPUs and micro-batches.
double layout_distance(const RunTraits& a, const RunTraits& b);

/// "bf16, full recomputation, megatron-lm, 1f1b, ZeRO 1"
std::string levers_text(const RunTraits& traits);

}  // namespace tracecast::accuracy
