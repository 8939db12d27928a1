/// `tracecast import` of machines: topologies and fabrics in the formats of other tools.
#include <filesystem>

#include <fmt/format.h>

#include "sim/import/topology_import.hpp"
#include "tools/import_formats.hpp"

namespace tracecast::cli {
namespace {

std::string summary(const ImportedTopology& imported, const TextStyle& style) {
  std::string text = fmt::format("{}: {}\n", imported.cluster.name, imported.format);
  for (const auto& [what, count] : imported.found) text += fmt::format("  {:<28} {:>8}\n", what, count);
  for (const std::string& note : imported.notes) text += paragraph("note: ", note, style);
  return text;
}

}  // namespace

Result<ExitCode> import_machine(const ImportOptions& options, const std::string& content, const Context& context) {
  const std::string format = options.format == "topology" ? "" : options.format;
  const Result<ImportedTopology> imported = import_topology(content, options.file, format);
  if (!imported) return tl::unexpected(imported.error());
  return deliver(options, to_topology_json(*imported, std::filesystem::path(options.file).filename().string()),
                 summary(*imported, context.style));
}

}  // namespace tracecast::cli
