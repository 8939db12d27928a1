/// \file
/// Recordings of other tools as traces.
///
///   kineto    PyTorch's profiler: Chrome trace JSON, one rank a file
///   nsight    Nsight Systems: the SQLite file of `nsys export`
///
/// What a trace has no place for is counted, never silently dropped. Environment, command lines, host and user names are
/// not copied.   Source: docs/references.md#format-kineto, docs/references.md#format-nsight;
/// docs/formats/recordings.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/trace.hpp"

namespace tracecast {

struct ImportedTrace {
  std::string format;  ///< its title
  Trace trace;
  std::vector<std::pair<std::string, std::int64_t>> found;  ///< {"kernels", 245}, …
  std::vector<std::string> notes;                           ///< what was left out or repaired
};

struct RecordingFormat {
  std::string_view name;
  std::string_view title;
  bool (*matches)(std::string_view content);
  /// Errors: one sentence that says what is damaged, or that the GPU does nothing in it.
  Result<ImportedTrace> (*read)(std::string_view content, const std::string& file);
};

/// All of them, in the order in which contents are tried.
std::span<const RecordingFormat> recording_formats();

/// `content`: not packed. `format`: a name of the table; empty: by content. Errors: none of them; those of the format.
Result<ImportedTrace> import_recording(std::string_view content, const std::string& file, std::string_view format = "");

/// A trace of our own, or any recording that can be imported, packed or not.
Result<Trace> read_recording(const std::filesystem::path& path);

// The formats.
Result<ImportedTrace> read_kineto(std::string_view content, const std::string& file);
Result<ImportedTrace> read_nsight(std::string_view content, const std::string& file);

}  // namespace tracecast
