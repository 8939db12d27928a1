/// \file
/// Reads traces (docs/formats/trace.md).
#pragma once

#include <filesystem>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/io/trace.hpp"

namespace tracecast {

/// The file begins with the header of a trace.
bool is_trace(std::string_view content);

/// Reads a trace up to its end or, with `complete` false, up to the line at which it is truncated.
/// Errors: not readable; the first line is not a header of this format; a line before the last is not a known record or
/// refers to an unknown string.
Result<Trace> read_trace(const std::filesystem::path& path);

}  // namespace tracecast
