/// How the step time moves with each fitted parameter: its derivatives along the critical path.
///
/// A parameter is a factor on the time of all work of one kind. The step time is a maximum over sums of durations, so
/// its derivative by the logarithm of such a factor is the time that this kind takes on the critical path; kinds that
/// hide behind others have none. Exact up to the factor at which another path becomes the longest, and from below
/// beyond it (maxima of sums are convex).
#pragma once

#include <array>
#include <string>

#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Kinds of work whose errors go together.
enum class Knob {
  gemm,  ///< 16 and 32 bit
  gemm_fp8,
  gemm_fp4,
  grouped_gemm,
  attention,          ///< fused
  unfused_attention,  ///< scores and softmax
  memory_bound,
  optimizer,
  host,
  tensor_parallel,  ///< the first of the transfers
  context_parallel,
  expert_parallel,
  pipeline,
  data_parallel,  ///< gradients, parameters, tied embeddings, control
};
inline constexpr std::size_t kKnobs = 14;
const char* to_string(Knob knob);

/// A factor on the time of each kind.
using KnobFactors = std::array<double, kKnobs>;
constexpr KnobFactors no_factors() {
  KnobFactors ones{};
  ones.fill(1);
  return ones;
}

/// Seconds on the critical path by kind; they sum to the step time.
struct Sensitivities {
  std::array<double, kKnobs> path_s{};
  std::array<double, kKnobs> spread_s{};  ///< the same weighted with the relative standard deviation of each cost
  double step_s = 0;
  /// Relative standard deviation of the step time: errors of one kind go together, those of different kinds do not.
  double relative_deviation() const;
  /// The same of a whole run: kKernelsTogether of what kernels and the host ask for, and all of what transfers do.
  double run_deviation() const;
};

/// How much of the kernels' own spread stays in a whole step: a step has many shapes of each kind, whose errors partly
/// cancel, and the level of all of them is fitted to whole runs. Of transfers all stays: a machine has one network,
/// which is a specification here and nothing that was fitted; runs with more than a tenth of transfers on their
/// critical path were inside their bands in 74 to 80 %, others in 89. Chosen, with the spreads of whole runs, so that
/// the 90 % bands of held-out sources hold 85 to 95 % (docs/validation/accuracy.md).
inline constexpr double kKernelsTogether = 0.5;

/// Host times differ from stack to stack by about 30 % (docs/references.md#in-training-host: 26 and 52 launches at 32
/// us, 13 us elsewhere).
inline constexpr double kHostSpread = 0.3;

/// Requires a timeline of this graph with spans.
Sensitivities sensitivities(const StepGraph& graph, const Timeline& timeline);

/// The same step with the time of every kind multiplied, rounded to picoseconds. Requires positive factors.
StepGraph scaled(StepGraph graph, const KnobFactors& factors);

}  // namespace tracecast
