#include "sim/import/recordings.hpp"

#include "sim/io/compressed.hpp"
#include "sim/io/trace_reader.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kSqlite{"SQLite format 3\0", 16};

bool is_sqlite(std::string_view content) { return content.starts_with(kSqlite); }
bool is_kineto(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{' &&
         content.find("\"traceEvents\"") != std::string_view::npos;
}

constexpr RecordingFormat kFormats[] = {
    {"kineto", "PyTorch profiler (Kineto)", is_kineto, read_kineto},
    {"nsight", "Nsight Systems (SQLite)", is_sqlite, read_nsight},
};

}  // namespace

std::span<const RecordingFormat> recording_formats() { return kFormats; }

Result<Trace> read_recording(const std::filesystem::path& path) {
  const Result<std::string> content = read_packed(path);
  if (!content) return tl::unexpected(content.error());
  constexpr std::string_view kOurs = "{\"format\":\"tracecast trace";
  if (content->starts_with(kOurs)) return read_trace(path);
  Result<ImportedTrace> imported = import_recording(*content, path.string());
  if (!imported) return tl::unexpected(imported.error());
  return std::move(imported->trace);
}

Result<ImportedTrace> import_recording(std::string_view content, const std::string& file, std::string_view format) {
  for (const RecordingFormat& each : kFormats)
    if (format.empty() ? each.matches(content) : each.name == format) return each.read(content, file);
  if (format.empty())
    return fail({file, 0, "", "", "is no recording that can be read (allowed: kineto JSON, an SQLite file of nsys)"});
  std::string names;
  for (const RecordingFormat& each : kFormats) names += (names.empty() ? "" : " ") + std::string(each.name);
  return fail({file, 0, "format", std::string(format), "is no format of recordings (allowed: " + names + ")"});
}

}  // namespace tracecast
