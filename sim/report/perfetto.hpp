/// \file
/// A timeline as a trace that opens in https://ui.perfetto.dev, in chrome://tracing, and in any JSON reader.
///
/// The format is Chrome Trace Event JSON instead of Perfetto's protobuf: jq, scripts for PyTorch profiles and diff can
/// read it. The cost is size, about 250 bytes per span.
///
/// Every class of ranks (or chosen rank) is one process with:
///   a thread "schedule"        one slice per run of a template: "forward 3", "backward 3 chunk 1"
///   a thread per stream used   one slice per operation with its shape, FLOPs, bytes, algorithm and group as arguments; a
///                              transfer that waits for other ranks is a slice "wait" first
///   arrows                     from a send to its receive
///   a counter                  memory in use, GiB: the constant part plus the live activations
/// Process ids are global rank numbers; thread ids are 1 for the schedule and stream + 2. Times are microseconds since
/// the start of the step, with whole nanoseconds (both ends of a slice are rounded down, so slices never overlap).
///
/// Leaves out: host activity; ranks that are folded into a representative.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/io/atomic_file.hpp"

namespace tracecast {

/// One process of a trace.
struct TracedRank {
  std::int32_t number = 0;  ///< global rank number, the process id
  std::int32_t index = 0;   ///< into StepGraph::ranks: whose spans it shows
  std::string name;         ///< "ranks 0-1023 (pp 0)"
  Bytes resident;           ///< memory in use before the step begins
};

/// Receives pieces of the trace in order. Returns false to stop after a write error.
using TraceSink = std::function<bool(std::string_view piece)>;

/// Requires timeline.spans. Returns false as soon as the sink returns false.
bool write_trace(const StepGraph& graph, const Timeline& timeline, std::span<const TracedRank> ranks,
                 std::string_view scenario, const TraceSink& sink);

/// The classes of a forecast, then each of `chosen` that is not already a representative.
/// Errors: a rank that the job does not have.
Result<std::vector<TracedRank>> traced_ranks(const ForecastRun& run, std::span<const int> chosen);

/// Finishes the file; the caller commits it. Errors: a chosen rank that the job does not have; a file that cannot be written.
Result<void> write_trace_file(AtomicFile& file, const ForecastRun& run, std::span<const int> chosen);

/// "0-7, 16, 18": ascending numbers as ranges; an ellipsis replaces everything after three ranges.
std::string ranges(std::span<const int> ascending);

}  // namespace tracecast
