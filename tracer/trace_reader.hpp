/// \file
/// Reads traces (docs/formats/trace.md).
#pragma once

#include <filesystem>

#include "sim/base/result.hpp"
#include "tracer/trace.hpp"

namespace tracecast {

/// A trace up to its end, or up to the line at which it is cut: then `complete` is false and everything before is there.
/// Errors: not readable; the first line is no header of this format; a line before the last that is none of the known
/// records, or refers to a string that was not written.
Result<Trace> read_trace(const std::filesystem::path& path);

}  // namespace tracecast
