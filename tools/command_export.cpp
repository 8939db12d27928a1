/// `tracecast export`: the step of a scenario as files of other simulators.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/import/chakra_export.hpp"
#include "sim/io/output_folder.hpp"
#include "tools/command_rows.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxRanks = 4'096;  // one file per rank

struct ExportOptions {
  std::string format;
  std::string scenario;
  std::vector<std::string> overrides;
  std::string out = "exported";
  bool json = false;
};

/// Returns the bytes written.
Result<std::uintmax_t> write_chakra(const StepGraph& graph, const std::string& name, const fs::path& folder) {
  OutputFolder output(folder);
  std::uintmax_t bytes = 0;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const std::string trace = to_chakra(graph, rank);
    output.write(fmt::format("{}.{}.et", name, graph.ranks[rank].representative), trace);
    bytes += trace.size();
  }
  output.write("comm_groups.json", chakra_groups(graph));
  if (const Result<void> written = output.commit(); !written) return tl::unexpected(written.error());
  return bytes;
}

std::string summary(const ExportOptions& options, const ForecastRun& run, std::uintmax_t bytes) {
  if (options.json) {
    const nlohmann::ordered_json json{{"scenario", run.forecast.scenario},
                                      {"format", options.format},
                                      {"ranks", run.graph.total_ranks()},
                                      {"groups", run.graph.communicators.size()},
                                      {"bytes", bytes},
                                      {"forecast_s", run.forecast.step_time_s},
                                      {"folder", options.out}};
    return json_file(json);
  }
  return fmt::format(
      "{}: {} Chakra traces, {:.1f} MB, and the {} groups of their collectives in comm_groups.json\n"
      "  written to {}; our own forecast of the step: {}\n",
      run.forecast.scenario, run.graph.total_ranks(), static_cast<double>(bytes) * 1e-6, run.graph.communicators.size(),
      options.out, to_text(run.timeline.step_time));
}

Result<ExitCode> run(const ExportOptions& options) {
  const Result<Scenario> scenario = named_scenario(options.scenario, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  if (scenario->cluster.world_size > kMaxRanks)
    return fail({options.scenario, 0, "cluster.world_size", std::to_string(scenario->cluster.world_size),
                 fmt::format("one file per rank would be too many files (allowed: up to {})", kMaxRanks)});
  const Result<ForecastRun> run = forecast(*scenario, {.unfold = true});
  if (!run) return tl::unexpected(run.error());
  const Result<std::uintmax_t> bytes = write_chakra(run->graph, scenario->name, options.out);
  if (!bytes) return tl::unexpected(bytes.error());
  fmt::print("{}", summary(options, *run, *bytes));
  return ExitCode::done;
}

Run add_export_options(CLI::App& app) {
  auto options = std::make_shared<ExportOptions>();
  app.add_option("FORMAT", options->format,
                 "chakra: execution traces (.et), one per rank, and the groups of collectives")
      ->required()
      ->check(one_of({"chakra"}));
  app.add_option("SCENARIO", options->scenario, "a shipped scenario or a scenario file")->required();
  add_overrides(app, options->overrides, "replace a value of the scenario, e.g. parallel.tp=2; may be repeated");
  app.add_option("--out", options->out, "the folder to write to")->type_name("DIR")->capture_default_str();
  app.add_flag("--json", options->json, "print one JSON object instead of a page");
  return [options](const Context&) { return run(*options); };
}

}  // namespace

const Command kExportCommand{"export", "write the step of a scenario for other simulators: Chakra execution traces",
                             "export chakra tensor-parallel --out exported", add_export_options};

}  // namespace tracecast::cli
