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
#include "sim/io/nccl_log.hpp"
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

/// What NCCL chose, a line for each size; then what it reckoned with.
std::string table_of(const NcclLog& log) {
  std::string text = fmt::format("{} collectives begun, {} ranks in the largest communicator\n", log.calls, log.ranks);
  if (!log.choices.empty())
    text += fmt::format("\n{:<16} {:>14}  {:<16} {:<8} {:>8} {:>12} {:>8}\n", "collective", "bytes", "algorithm",
                        "protocol", "channels", "time us", "lines");
  for (const NcclChoice& c : log.choices)
    text += fmt::format("{:<16} {:>14}  {:<16} {:<8} {:>8} {:>12} {:>8}\n", to_string(c.collective), c.bytes,
                        to_string(c.algorithm), to_string(c.protocol), c.channels > 0 ? std::to_string(c.channels) : "",
                        c.time_us > 0 ? fmt::format("{:.3f}", c.time_us) : "", c.seen);
  if (!log.table.empty())
    text += fmt::format("\n{:<16} {:<16} {:<8} {:>12} {:>12}\n", "collective", "algorithm", "protocol", "latency us",
                        "GB/s");
  for (const NcclTableCell& c : log.table)
    text += fmt::format("{:<16} {:<16} {:<8} {:>12.1f} {:>12.1f}\n", to_string(c.collective), to_string(c.algorithm),
                        to_string(c.protocol), c.latency_us, c.bandwidth_gb_s);
  return text;
}

Result<ExitCode> import_log(const Options& options, const std::string& content) {
  const Result<NcclLog> log = read_nccl_log(content, options.file);
  if (!log) return tl::unexpected(log.error());
  if (options.output.empty())
    fmt::print("{}", table_of(*log));
  else if (const Result<void> ok = write_file(options.output, table_of(*log)); !ok)
    return tl::unexpected(ok.error());
  return ExitCode::done;
}

Result<ExitCode> import(const Options& options, const Context& context) {
  std::ifstream stream(options.file, std::ios::binary);
  if (!stream.is_open() || std::filesystem::is_directory(options.file))
    return fail({options.file, 0, "", "", "cannot be read"});
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (options.format == "nccl-log") return import_log(options, content);
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
  std::vector<std::string> names{"topology", "nccl-log"};
  for (const TopologyFormat& format : topology_formats()) names.emplace_back(format.name);
  return names;
}

}  // namespace

Run add_import(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("format", options->format, "what the file is; topology: any machine or fabric, by its content")
      ->required()
      ->check(CLI::IsMember(format_names()));
  app.add_option("file", options->file, "the file to read")->required();
  app.add_option("-o,--output", options->output, "the file to write; default: standard output");
  return [options](const Context& context) { return import(*options, context); };
}

}  // namespace tracecast::cli
