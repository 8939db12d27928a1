/// `tracecast import` of runs: converts launcher settings to a scenario.
#include <fmt/format.h>

#include "sim/import/launchers/launcher.hpp"
#include "tools/environment.hpp"
#include "tools/import_formats.hpp"

namespace tracecast::cli {
namespace {

std::string summary(const ImportedRun& run, const ImportOptions& options, const TextStyle& style) {
  const Scenario& s = run.scenario;
  std::string text = fmt::format("{}: {} on {} GPUs of {}\n", options.output,
                                 s.model.name.empty() ? s.name : s.model.name, s.cluster.world_size, s.topology);
  for (const std::string& each : run.assumptions) text += paragraph("assumed: ", each, style);
  if (run.passed_over > 0)
    text += fmt::format("{} on the time of a step\n", run.passed_over == 1
                                                          ? "1 setting has no effect"
                                                          : fmt::format("{} settings have no effect", run.passed_over));
  if (!run.unmapped.empty()) text += "not mapped:\n";
  for (const UnmappedSetting& each : run.unmapped)
    text += fmt::format("  {}:{}: {} = {}\n", options.file, each.line, each.key, each.value);
  return text;
}

}  // namespace

Result<ExitCode> import_launcher(const ImportOptions& options, const std::string& content, const Context& context) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  const RunGivens givens{options.model, options.topology, options.gpus, options.overrides};
  Result<ImportedRun> run = import_run(options.format, content, options.file, givens, *data);
  if (!run) return tl::unexpected(run.error());
  std::string source = fmt::format("imported from {} ({})", options.file, options.format);
  for (const std::string& each : run->assumptions) source += "; " + each;
  run->scenario.source = source;
  return deliver(options, to_json(run->scenario), summary(*run, options, context.style));
}

}  // namespace tracecast::cli
