/// From recorded kernels and collectives to a profile: what `profile --from` does.
///
/// The step graph of the recorded scenario says which operators a rank runs, in which order; the kernels of the trace are laid
/// beside them so that the most weight matches (a longest common subsequence):
///
///   shape    3   a matrix multiplication launched in a range that names its sizes ("aten::mm, sizes = [[8192, 4096], …]", as
///                PyTorch's NVTX and profiler write them) matches operators of these sizes and no others
///   kind     2   a multiplication or attention kernel without sizes, by its name
///            1   element-wise kernels, by their name
///
/// Kernels with sizes that found no place in the order match by the sizes alone. What remains is reported, with its time.
/// Collectives that the trace knows sizes of become measurements of their group, the shortest of all traces for each call: the
/// last rank to come waits for nobody.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/profile.hpp"
#include "sim/graph/step_graph.hpp"
#include "tracer/trace.hpp"

namespace tracecast {

struct MeasuredProfile {
  Profile profile;
  std::int64_t kernels = 0;  ///< that compute, of all traces
  std::int64_t matched = 0;
  Duration time;  ///< of those kernels
  Duration matched_time;
  std::int64_t operators = 0;    ///< distinct ones that were measured
  std::int64_t collectives = 0;  ///< calls with a size
  std::vector<std::pair<std::string, Duration>> unmatched;  ///< by name of the kernel, the longest first
};

/// `base` lends its models for what was not measured; its in-training factors become 1, since a step was recorded.
/// `graph`: of the scenario that was recorded. Each range ProfilerStep#N of a trace is a step; a trace without them is one.
/// Requires at least one trace. Errors: no kernel that computes; more than 20,000 kernels in a step.
Result<MeasuredProfile> measured_profile(std::span<const Trace> traces, const StepGraph& graph, Profile base,
                                         const std::string& file);

}  // namespace tracecast
