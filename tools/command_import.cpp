/// `tracecast import`: turns other people's files into our own.
#include <algorithm>
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
#include "tools/import_formats.hpp"

namespace tracecast::cli {
namespace {

struct Format {
  std::string name;
  Import import;
};

/// Every format, in the order in which --help lists them.
std::vector<Format> formats() {
  std::vector<Format> table{{"topology", import_machine}, {"nccl-log", import_nccl_log}};
  for (const TopologyFormat& format : topology_formats()) table.push_back({std::string(format.name), import_machine});
  return table;
}

Result<ExitCode> import(const ImportOptions& options, const Context& context) {
  std::ifstream stream(options.file, std::ios::binary);
  if (!stream.is_open() || std::filesystem::is_directory(options.file))
    return fail({options.file, 0, "", "", "cannot be read"});
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::vector<Format> table = formats();
  const auto format =
      std::find_if(table.begin(), table.end(), [&](const Format& f) { return f.name == options.format; });
  TRACECAST_ASSERT(format != table.end(), "the command line allows the formats of the table");
  return format->import(options, content, context);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.push_back(format.name);
  return names;
}

}  // namespace

Result<ExitCode> deliver(const ImportOptions& options, const std::string& text, const std::string& summary) {
  if (options.output.empty()) {
    fmt::print("{}", text);
    return ExitCode::done;
  }
  if (const Result<void> ok = write_file(options.output, text); !ok) return tl::unexpected(ok.error());
  fmt::print("{}", summary);
  return ExitCode::done;
}

Run add_import(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  app.add_option("format", options->format, "what the file is; topology: any machine or fabric, by its content")
      ->required()
      ->check(CLI::IsMember(format_names()));
  app.add_option("file", options->file, "the file to read")->required();
  app.add_option("-o,--output", options->output, "the file to write; default: standard output");
  return [options](const Context& context) { return import(*options, context); };
}

}  // namespace tracecast::cli
