// Importers of recordings: PyTorch's profiler, Nsight Systems.

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "sim/import/recordings.hpp"
#include "sim/io/compressed.hpp"
#include "tools/import_formats.hpp"
#include "tracer/trace_writer.hpp"

namespace tracecast::cli {
namespace {

std::string found_in(const ImportedTrace& imported, const std::string& file, const TextStyle& style) {
  std::string text = fmt::format("{}: {}\n", file, imported.format);
  for (const auto& [what, count] : imported.found) text += fmt::format("  {:<28} {:>8}\n", what, count);
  for (const std::string& note : imported.notes) text += paragraph("note: ", note, style);
  return text;
}

/// Writes a temporary file and renames it, so that the output is never partial.
bool save(const Trace& trace, const std::string& path) {
  const std::string partial = path + ".partial";
  std::error_code failed;
  if (!write_trace(partial, trace)) return false;
  std::filesystem::rename(partial, path, failed);
  return !failed;
}

}  // namespace

Result<ExitCode> import_trace(const ImportOptions& options, const std::string& content, const Context& context) {
  const Result<ImportedTrace> imported = import_recording(content, options.file, options.format);
  if (!imported) return tl::unexpected(imported.error());
  if (!options.output.empty() && !save(imported->trace, options.output))
    return fail({options.output, 0, "", "", "cannot be written"});
  fmt::print("{}", found_in(*imported, options.file, context.style));
  return ExitCode::done;
}

}  // namespace tracecast::cli
