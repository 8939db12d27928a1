/// \file
/// What a trace holds, without reading its records: one pass, a line at a time.
#pragma once

#include <filesystem>

#include "sim/base/result.hpp"
#include "sim/io/trace.hpp"

namespace tracecast {

struct TraceSummary {
  TraceHeader header;
  std::int64_t kernels = 0;
  std::int64_t copies = 0;
  std::int64_t ranges = 0;
  std::int64_t collectives = 0;
  std::int64_t dropped = 0;
  std::int64_t overhead_ns = 0;
  std::int64_t span_ns = 0;  ///< first begin to last end of the kernels
  bool complete = false;
  bool has_work() const { return kernels > 0 || copies > 0; }
};

/// Errors: not a trace.
Result<TraceSummary> trace_summary(const std::filesystem::path& path);

}  // namespace tracecast
