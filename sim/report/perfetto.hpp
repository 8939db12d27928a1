/// \file
/// A timeline as a trace that opens in https://ui.perfetto.dev, in chrome://tracing, and in any JSON reader.
///
/// The format is Chrome Trace Event JSON and not Perfetto's own protobuf: it can be read with jq, by the scripts that
/// people have for PyTorch profiles, and in a diff; its price is size (about 110 bytes a span).
///
/// What is in it, for every class of ranks (or chosen rank) as one process:
///   a thread "schedule"        one slice per run of a template: "forward 3", "backward 3 chunk 1"
///   a thread per stream used   one slice per operation; a transfer that waits for other ranks is a slice "wait" first
///   arrows                     from a send to its receive
///   a counter                  memory in use, GiB: what stays, and the activations as they come and go
/// Process ids are global rank numbers, thread ids 1 for the schedule and stream + 2; times are microseconds from the
/// beginning of the step with whole nanoseconds (both ends of a slice are rounded down, so slices never overlap).
///
/// Leaves out: host activity; the copies that folded ranks are.
#pragma once

#include <cstdint>
#include <filesystem>
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

namespace tracecast {

/// One process of a trace.
struct TracedRank {
  std::int32_t number = 0;  ///< global rank number, the process id
  std::int32_t index = 0;   ///< into StepGraph::ranks: whose spans it shows
  std::string name;         ///< "ranks 0-1023 (pp 0)"
  Bytes resident;           ///< memory in use before the step begins
};

/// Takes pieces of the trace in order; false: could not, stop.
using TraceSink = std::function<bool(std::string_view piece)>;

/// Requires timeline.spans. Returns false as soon as the sink did.
bool write_trace(const StepGraph& graph, const Timeline& timeline, std::span<const TracedRank> ranks,
                 std::string_view scenario, const TraceSink& sink);

/// The classes of a forecast, and then every one of `chosen` that is not already there as a representative.
/// Errors: a rank that the job does not have.
Result<std::vector<TracedRank>> traced_ranks(const ForecastRun& run, std::span<const int> chosen);

/// Writes beside `path` and renames. Errors: a chosen rank that the job does not have; a file that cannot be written.
Result<void> write_trace_file(const std::filesystem::path& path, const ForecastRun& run, std::span<const int> chosen);

/// "0-7, 16, 18": ascending numbers as ranges; after `most` ranges the rest is an ellipsis.
std::string ranges(std::span<const int> ascending, std::size_t most = 3);

}  // namespace tracecast
