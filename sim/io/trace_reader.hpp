/// \file
/// Reads traces (docs/formats/trace.md).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/io/trace.hpp"

namespace tracecast {

/// The file begins with the header of a trace.
bool is_trace(std::string_view content);
/// The same of a file, packed or not, of which the first line is read.
bool is_trace_file(const std::filesystem::path& path);

/// Memory that the records of a trace may take, names included: some 400,000 kernels with their calls, hundreds of steps. A
/// recording of a long run is larger; one part of it is read, and the rest counted in Trace::left_out.
inline constexpr std::size_t kMostTraceMemory = std::size_t{128} << 20;
enum class TracePart { first, last };

/// Reads a trace up to its end or, with `complete` false, up to the line at which it is truncated. Uses a small multiple of
/// `most_memory`, whatever the size of the file.
/// Errors: not readable; the first line is not a header of this format; a line before the last is not a known record or
/// refers to an unknown string.
Result<Trace> read_trace(const std::filesystem::path& path, std::size_t most_memory = kMostTraceMemory,
                         TracePart part = TracePart::first);

}  // namespace tracecast
