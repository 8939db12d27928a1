/// `tracecast import`: turns other people's files into our own.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/files.hpp"
#include "sim/io/topology_import.hpp"
#include "tools/command_list.hpp"

namespace tracecast::cli {
namespace {

struct Options {
  std::string format;
  std::string file;
  std::string output;
};

std::string summary(const ImportedTopology& imported, const TextStyle& style) {
  std::string text = fmt::format("{}: {}\n", imported.cluster.name, imported.format);
  for (const auto& [what, count] : imported.found) text += fmt::format("  {:<28} {:>8}\n", what, count);
  for (const std::string& note : imported.notes) text += paragraph("note: ", note, style);
  return text;
}

Result<ExitCode> import(const Options& options, const Context& context) {
  std::ifstream stream(options.file, std::ios::binary);
  if (!stream.is_open() || std::filesystem::is_directory(options.file))
    return fail({options.file, 0, "", "", "cannot be read"});
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::string format = options.format == "topology" ? "" : options.format;
  const Result<ImportedTopology> imported = import_topology(content, options.file, format);
  if (!imported) return tl::unexpected(imported.error());
  const std::string topology = to_topology_json(*imported, std::filesystem::path(options.file).filename().string());
  if (options.output.empty()) {
    fmt::print("{}", topology);
    return ExitCode::done;
  }
  if (const Result<void> ok = write_file(options.output, topology); !ok) return tl::unexpected(ok.error());
  fmt::print("{}", summary(*imported, context.style));
  return ExitCode::done;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names{"topology"};
  for (const TopologyFormat& format : topology_formats()) names.emplace_back(format.name);
  return names;
}

}  // namespace

Run add_import(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("format", options->format, "what the file is; topology: any of the others, by its content")
      ->required()
      ->check(CLI::IsMember(format_names()));
  app.add_option("file", options->file, "the file to read")->required();
  app.add_option("-o,--output", options->output, "the topology file to write; default: standard output");
  return [options](const Context& context) { return import(*options, context); };
}

}  // namespace tracecast::cli
