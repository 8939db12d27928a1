/// `tracecast import`: turns files of other programs into files of this project.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/compressed.hpp"
#include "tools/command_rows.hpp"
#include "tools/import_results.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

constexpr std::string_view kAnyMachine = "topology";  // as a format: any machine, by content

/// `import FILE`, or `import FORMAT FILE`.
ImportOptions with_format(ImportOptions options) {
  if (options.file.empty()) options.file = std::exchange(options.format, "");
  return options;
}

Result<ExitCode> import(const ImportOptions& options, const Context& context) {
  const Result<std::string> content = read_packed(options.file);
  if (!content) return tl::unexpected(content.error());
  return (options.format == kAnyMachine ? find_importer(*content, options.file, "", {ImportKind::machine})
                                        : find_importer(*content, options.file, options.format))
      .and_then([&](const Importer* importer) { return import_with(*importer, options, *content, context); });
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

Run add_options(CLI::App& app) {
  auto options = std::make_shared<ImportOptions>();
  app.add_option("format", options->format, "format of the file (below); default: detected by content")->required();
  app.add_option("file", options->file, "the file to read");
  app.add_option("-o,--output", options->output, "the file to write; default: standard output");
  app.add_option("--into", options->into,
                 "for measured collectives: add them to this profile (a shipped profile or a profile file)")
      ->type_name("PROFILE");
  app.add_option("--model", options->model, "for a run: a shipped model or a model file");
  app.add_option("--topology", options->topology,
                 "for a run, and to time the collectives of a Chakra trace: a shipped machine or a topology file");
  app.add_option("--gpus", options->gpus, "for a run: number of GPUs; for a Chakra trace: ranks of its collectives")
      ->check(in_range(1, 1 << 24));
  app.add_option("--set", options->overrides, "for a run: replace a value of its scenario; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.footer(table_of_formats());
  return [options](const Context& context) { return import(with_format(*options), context); };
}

}  // namespace

const Command kImportCommand{"import", "read other programs' machines, recordings, runs and measurements",
                             "import nccl-topology docs/formats/samples/nccl-topology.xml", add_options};

}  // namespace tracecast::cli
