/// `tracecast import`: converts files of other programs.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "sim/import/imported_graph.hpp"
#include "sim/import/launchers/launcher.hpp"
#include "sim/import/recordings.hpp"
#include "sim/import/topology_import.hpp"
#include "sim/io/compressed.hpp"
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
  for (const RecordingFormat& format : recording_formats()) table.push_back({std::string(format.name), import_trace});
  for (const LauncherFormat& format : launcher_formats()) table.push_back({std::string(format.name), import_launcher});
  for (const StepFormat& format : step_formats()) table.push_back({std::string(format.name), import_foreign_step});
  table.push_back({"nccl-tests", import_measurements});
  table.push_back({"nccl-inspector", import_measurements});
  table.push_back({"calculon", import_calculon});
  return table;
}

Result<ExitCode> import(const ImportOptions& options, const Context& context) {
  const Result<std::string> content = read_packed(options.file);
  if (!content) return tl::unexpected(content.error());
  const std::vector<Format> table = formats();
  const auto format =
      std::find_if(table.begin(), table.end(), [&](const Format& f) { return f.name == options.format; });
  TRACECAST_ASSERT(format != table.end(), "the command line allows the formats of the table");
  return format->import(options, *content, context);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.push_back(format.name);
  return names;
}

}  // namespace

Run add_import(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  app.add_option("format", options->format, "format of the file; topology: any machine or fabric, detected by content")
      ->required()
      ->check(CLI::IsMember(format_names()));
  app.add_option("file", options->file, "the file to read")->required();
  app.add_option("-o,--output", options->output, "the file to write; default: standard output");
  app.add_option("--into", options->into,
                 "for measured collectives: add them to this profile (a shipped profile or a profile file)")
      ->type_name("PROFILE");
  app.add_option("--model", options->model, "for a run: a shipped model or a model file");
  app.add_option("--topology", options->topology, "for a run: a shipped machine or a topology file");
  app.add_option("--gpus", options->gpus, "for a run: number of GPUs")->check(CLI::Range(1, 1 << 24));
  app.add_option("--set", options->overrides, "for a run: replace a value of its scenario; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  return [options](const Context& context) { return import(*options, context); };
}

}  // namespace tracecast::cli
