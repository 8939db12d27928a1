/// \file
/// Builds a profile from recorded kernels and collectives (`profile --from`).
///
/// The step graph of the recorded scenario gives the operators of a rank in order. The kernels of each recorded step are aligned
/// with them (tracer/alignment.hpp) so that the total weight is maximal:
///
///   NVTX     8   all kernels launched in a range named after an operator ("qkv") together are that operator
///   shape    6   a matrix multiplication launched in a range that names its sizes ("aten::mm, sizes = [[8192, 4096], …]", as
///                PyTorch's NVTX and profiler write them) matches operators of these sizes and no others
///   kind     4   a multiplication or attention kernel without sizes, by its name
///            2   element-wise kernels, by their name; kernels with unknown names match a residual with weight 1
///            1   a further consecutive kernel of the same kind: an operator may be several kernels, whose times are added
///
/// A kernel launched in a backward range matches a forward operator only if that operator is recomputed. Kernels with sizes that
/// do not match in order are matched by their sizes alone. Unmatched kernels are reported with their time.
///
/// A step is a range ProfilerStep#N. Without such ranges it ends with the last optimizer kernel before the next multiplication,
/// or before the next embedding if there is one in between. Every GPU of a trace is a rank.
///
/// A kernel that ran beside a collective was slowed by it (sim/engine/gpu_sharing.hpp), and the simulator slows it again: what is written is
/// its time without the collective, by the same model.
///
/// Collectives with recorded sizes become measurements of their group. Without sizes, NCCL kernels are matched with the step's
/// collectives in order. For each call the shortest duration over all traces is used: the last rank to arrive does not wait.
/// The profile stores only collectives within one host; others are counted and left to the network model.
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
#include "sim/io/trace.hpp"

namespace tracecast {

struct MeasuredProfile {
  Profile profile;
  std::int64_t steps = 0;    ///< of all ranks
  std::int64_t kernels = 0;  ///< compute kernels of all traces
  std::int64_t matched = 0;
  Duration time;  ///< of those kernels
  Duration matched_time;
  std::int64_t operators = 0;    ///< distinct ones that were measured
  std::int64_t collectives = 0;  ///< NCCL calls or kernels of all traces
  std::int64_t collectives_matched = 0;
  std::int64_t collectives_across_hosts = 0;                ///< of those that matched: not written
  std::vector<std::pair<std::string, Duration>> unmatched;  ///< by kernel name, longest first
};

/// A trace and its name in messages.
struct NamedTrace {
  std::string file;
  Trace trace;
};

/// `base` provides the models for everything not measured; its in-training factors become 1, since a step was recorded.
/// `graph`: of the recorded scenario, with every rank (unfolded).
/// Requires at least one trace. Errors: no compute kernels; a rank that the graph does not have; a different number of ranks; a step
/// with too many kernels and operators to align.
Result<MeasuredProfile> measured_profile(std::span<const NamedTrace> traces, const StepGraph& graph, Profile base);

}  // namespace tracecast
