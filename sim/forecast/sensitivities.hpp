/// \file
/// Sensitivity of the step time to each cost parameter: its derivatives along the critical path.
///
/// A parameter is a factor on the time of all work of one kind. The step time is a maximum over sums of durations, so
/// its derivative with respect to the logarithm of such a factor is the time of this kind on the critical path; hidden
/// kinds have none. The result is exact up to the factor at which another path becomes the longest. Beyond it, it is a
/// lower bound, since maxima of sums are convex.
#pragma once

#include <array>
#include <string>

#include "sim/base/enum_names.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Kinds of work whose cost errors are correlated.
enum class CostParameter {
  gemm,  ///< 16 and 32 bit
  gemm_fp8,
  gemm_fp4,
  grouped_gemm,
  attention,          ///< fused
  unfused_attention,  ///< scores and softmax
  linear_attention,   ///< scans and their convolutions
  sparse_attention,   ///< with its indexer
  memory_bound,
  optimizer,
  host,
  tensor_parallel,  ///< the first of the transfers
  context_parallel,
  expert_parallel,
  pipeline,
  data_parallel,  ///< gradients, parameters, tied embeddings, control
};
inline constexpr std::size_t kCostParameters = 16;
template <>
struct EnumNames<CostParameter> {
  static constexpr NamedValue<CostParameter> table[] = {{CostParameter::gemm, "gemm"},
                                                        {CostParameter::gemm_fp8, "gemm_fp8"},
                                                        {CostParameter::gemm_fp4, "gemm_fp4"},
                                                        {CostParameter::grouped_gemm, "grouped_gemm"},
                                                        {CostParameter::attention, "attention"},
                                                        {CostParameter::unfused_attention, "unfused_attention"},
                                                        {CostParameter::linear_attention, "linear_attention"},
                                                        {CostParameter::sparse_attention, "sparse_attention"},
                                                        {CostParameter::memory_bound, "memory_bound"},
                                                        {CostParameter::optimizer, "optimizer"},
                                                        {CostParameter::host, "host"},
                                                        {CostParameter::tensor_parallel, "tensor_parallel"},
                                                        {CostParameter::context_parallel, "context_parallel"},
                                                        {CostParameter::expert_parallel, "expert_parallel"},
                                                        {CostParameter::pipeline, "pipeline"},
                                                        {CostParameter::data_parallel, "data_parallel"}};
};

/// [CostParameter] a factor on the time of each kind.
using CostScales = std::array<double, kCostParameters>;
constexpr CostScales unit_scales() {
  CostScales ones{};
  ones.fill(1);
  return ones;
}

/// Seconds on the critical path by kind; they sum to the step time.
struct Sensitivities {
  std::array<double, kCostParameters> path_s{};
  std::array<double, kCostParameters>
      spread_s{};  ///< the same weighted with the relative standard deviation of each cost
  double step_s = 0;
  /// Relative standard deviation of the step time of a run. Errors of one kind are correlated, those of different kinds
  /// are not. Kernels and the host count with kKernelsTogether, transfers fully, and so do linear and sparse
  /// attention, whose kernels were never measured.
  double run_deviation() const;
};

/// Share of the spread of kernels that remains in a whole step: a step has many shapes of each kind, whose errors
/// partly cancel, and their common level is fitted to whole runs. The spread of transfers remains fully: a machine has
/// one network, which is specified and not fitted. Chosen together with the spreads of whole runs so that the 90 %
/// bands of held-out sources contain about nine of ten runs (docs/validation/accuracy.md has the shares).
inline constexpr double kKernelsTogether = 0.5;

/// Host times differ from stack to stack by about 30 % (docs/references.md#in-training-host: 26 and 52 launches at 32
/// us, 13 us elsewhere).
inline constexpr double kHostSpread = 0.3;

/// Requires a timeline of this graph with spans.
Sensitivities sensitivities(const StepGraph& graph, const Timeline& timeline);

/// The same step with the time of every kind multiplied and rounded to picoseconds. For a transfer this is its time
/// alone: it moves the same bytes at another rate. In a folded graph it is never faster than its links; in a graph of all ranks
/// a factor below one lets it be as fast as it then is alone. Requires positive factors.
StepGraph scaled(StepGraph graph, const CostScales& factors);

}  // namespace tracecast
