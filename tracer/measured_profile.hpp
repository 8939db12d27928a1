/// \file
/// From recorded kernels and collectives to a profile: what `profile --from` does.
///
/// The step graph of the recorded scenario says which operators a rank runs, in which order; the kernels of each recorded step
/// are laid beside them (tracer/alignment.hpp) so that the most weight matches:
///
///   NVTX     8   kernels launched in a range with the name of an operator ("qkv") are that operator, all together
///   shape    6   a matrix multiplication launched in a range that names its sizes ("aten::mm, sizes = [[8192, 4096], …]", as
///                PyTorch's NVTX and profiler write them) matches operators of these sizes and no others
///   kind     4   a multiplication or attention kernel without sizes, by its name
///            2   element-wise kernels, by their name; those whose name says nothing match a residual for 1
///            1   one more kernel of the same kind in a row: an operator may be several kernels, whose times are added
///
/// What was launched in a range of a backward matches no forward, other than a recomputed one. Kernels with sizes that found no
/// place in the order match by the sizes alone. What remains is reported, with its time.
///
/// A step is a range ProfilerStep#N; where there are none, it ends with the last kernel of an optimizer before the next
/// multiplication, or with what follows that up to the next embedding. Every GPU of a trace is a rank.
///
/// Collectives that the trace knows sizes of become measurements of their group; without sizes, NCCL's kernels are laid beside the
/// collectives of the step in order. Of each call the shortest of all traces counts: the last rank to come waits for nobody. A
/// profile has collectives of one host only, others are counted and left to the network model.
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
  std::int64_t steps = 0;    ///< of all ranks
  std::int64_t kernels = 0;  ///< that compute, of all traces
  std::int64_t matched = 0;
  Duration time;  ///< of those kernels
  Duration matched_time;
  std::int64_t operators = 0;    ///< distinct ones that were measured
  std::int64_t collectives = 0;  ///< calls or kernels of NCCL, of all traces
  std::int64_t collectives_matched = 0;
  std::int64_t collectives_across_hosts = 0;                ///< of those that matched: not written
  std::vector<std::pair<std::string, Duration>> unmatched;  ///< by name of the kernel, the longest first
};

/// A trace and what its sentences call it.
struct NamedTrace {
  std::string file;
  Trace trace;
};

/// `base` lends its models for what was not measured; its in-training factors become 1, since a step was recorded.
/// `graph`: of the scenario that was recorded, with every rank (unfolded).
/// Requires at least one trace. Errors: no kernel that computes; a rank that the graph does not have; another number of ranks; a step
/// of more kernels and operators than can be laid side by side.
Result<MeasuredProfile> measured_profile(std::span<const NamedTrace> traces, const StepGraph& graph, Profile base);

}  // namespace tracecast
