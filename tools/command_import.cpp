/// `tracecast import`: turns files of other programs into files of this project.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/compressed.hpp"
#include "sim/network/cluster.hpp"
#include "tools/command_rows.hpp"
#include "tools/import_results.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

constexpr std::string_view kAnyMachine = "topology";  // as a format: any machine, by content

bool is_format(const std::string& name) {
  return name == kAnyMachine ||
         std::ranges::any_of(importers(), [&](const Importer* each) { return each->name == name; });
}

/// `import FILE…`, or `import FORMAT FILE…`.
ImportOptions with_format(ImportOptions options) {
  std::error_code none;
  if (options.file.empty()) {
    options.file = std::exchange(options.format, "");
  } else if (!is_format(options.format) && std::filesystem::exists(options.format, none)) {
    options.more.insert(options.more.begin(), std::exchange(options.file, std::exchange(options.format, "")));
  }
  return options;
}

/// The records of all files, one file after the other. Each is read alone first, for messages with its own lines.
Result<std::string> all_records(const Importer& importer, const ImportOptions& options, std::string content) {
  if (importer.kind() != ImportKind::measurements)
    return fail(
        {options.more.front(), 0, "", "",
         fmt::format("is a second file; {} takes one (allowed: several of measured collectives)", importer.name)});
  if (const auto first = import_as<CollectiveMeasurements>(content, options.file, importer.name); !first)
    return tl::unexpected(first.error());
  for (const std::string& file : options.more) {
    const Result<std::string> next = read_packed(file);
    if (!next) return next;
    if (const auto read = import_as<CollectiveMeasurements>(*next, file, importer.name); !read)
      return tl::unexpected(read.error());
    content += '\n' + *next;
  }
  return content;
}

Result<ExitCode> import(const ImportOptions& options, const Context& context) {
  const Result<std::string> content = read_packed(options.file);
  if (!content) return tl::unexpected(content.error());
  return (options.format == kAnyMachine ? find_importer(*content, options.file, "", {ImportKind::machine})
                                        : find_importer(*content, options.file, options.format))
      .and_then([&](const Importer* importer) -> Result<ExitCode> {
        if (options.more.empty()) return import_with(*importer, options, *content, context);
        return all_records(*importer, options, *content).and_then([&](const std::string& all) {
          return import_with(*importer, options, all, context);
        });
      });
}

std::string table_of_formats() {
  std::string text = "Formats, by what the file is:\n";
  std::optional<ImportKind> kind;
  for (const Importer* each : importers()) {
    if (each->kind() != kind) text += fmt::format(" {} (docs/formats/{})\n", noun_of(each->kind()), each->page);
    kind = each->kind();
    text += fmt::format("  {:<16} {}\n", each->name, each->what);
  }
  return text;
}

Run add_import_options(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  app.add_option("FORMAT", options->format, "format of the file (below); without it the content decides")->required();
  app.add_option("FILE", options->file, "the file to read");
  app.add_option("MORE", options->more, "of measured collectives: further files, of other processes or programs");
  app.add_option("-o,--output", options->output, "the file to write; default: standard output")->type_name("FILE");
  app.add_option("--into", options->into,
                 "for measured collectives: add them to this profile (a shipped profile or a profile file)")
      ->type_name("PROFILE");
  app.add_option("--model", options->model, "for a run: a shipped model or a model file")->type_name("MODEL");
  app.add_option(
         "--topology", options->topology,
         "for a run, to time the transfers of a Chakra trace or a SimAI workload, and for measured collectives, "
         "whose table then names it: a shipped machine or a topology file (without --into, for measured collectives: a "
         "shipped one)")
      ->type_name("MACHINE");
  app.add_option("--gpus", options->gpus,
                 "number of GPUs of a run, or of a Chakra trace or SimAI workload if the file does not say")
      ->check(in_range(1, kMostGpus));
  add_overrides(app, options->overrides, "for a run: replace a value of its scenario; may be repeated");
  app.footer(table_of_formats());
  return [options](const Context& context) { return import(with_format(*options), context); };
}

}  // namespace

const Command kImportCommand{"import", "read other programs' machines, recordings, runs and measurements",
                             "import nccl-topology docs/formats/samples/nccl-topology.xml", add_import_options};

}  // namespace tracecast::cli
