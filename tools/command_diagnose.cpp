/// `tracecast diagnose`: what explains a step that took longer than its forecast.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/forecast/diagnosis.hpp"
#include "sim/io/files.hpp"
#include "sim/report/diagnosis_report.hpp"
#include "tools/command_rows.hpp"
#include "tools/import_results.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

struct DiagnoseOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  double measured_s = 0;
  std::vector<std::string> actual;
  std::int64_t step = -1;
  bool json = false;
  std::string svg;
};

/// The step record of --actual, in the words of the forecast; `some_ranks`: whether it may be of some known ranks only.
Result<StepRecord> read_actual(const DiagnoseOptions& options, const Scenario& scenario, bool& some_ranks) {
  const Result<bool> recorded = is_recording(options.actual.front());
  if (!recorded) return tl::unexpected(recorded.error());
  if (!*recorded && options.actual.size() > 1)
    return fail_key("--actual", options.actual.front(), "not a recording: several files must be recordings of one run");
  if (!*recorded) return read_any_step(options.actual.front());
  ForecastOptions spans;
  spans.record_spans = true;
  const Result<ForecastRun> run = forecast(scenario, spans);
  if (!run) return tl::unexpected(run.error());
  Result<RecordedRanks> ranks = read_recorded_step(
      options.actual, options.step, record_of(run->graph, run->timeline, scenario.name, StepOrigin::simulated));
  if (!ranks) return tl::unexpected(ranks.error());
  some_ranks = ranks->named;
  return std::move(ranks->record);
}

Result<StepEvidence> evidence_of(const DiagnoseOptions& options, const Scenario& scenario) {
  StepEvidence evidence;
  evidence.step_s = options.measured_s;
  if (!options.actual.empty()) {
    Result<StepRecord> record = read_actual(options, scenario, evidence.some_ranks);
    if (!record) return tl::unexpected(record.error());
    if (evidence.step_s == 0) evidence.step_s = record->seconds_to_compare();
    evidence.record = std::move(*record);
  }
  if (evidence.step_s == 0 && scenario.measured) evidence.step_s = scenario.measured->step_time_s;
  if (evidence.step_s > 0) return evidence;
  return fail_key("--measured", "", "is missing: the seconds of a step (or --actual, or `measured` in the scenario)");
}

Result<ExitCode> run(const DiagnoseOptions& options, const Context& context) {
  const Result<Scenario> scenario = named_scenario(options.scenario, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  const Result<StepEvidence> evidence = evidence_of(options, *scenario);
  if (!evidence) return tl::unexpected(evidence.error());
  const Result<Diagnosis> diagnosis = diagnose(*scenario, *evidence, {});
  if (!diagnosis) return tl::unexpected(diagnosis.error());
  if (!options.svg.empty())
    if (const Result<void> written = write_file(options.svg, diagnosis_svg(scenario->name, *diagnosis)); !written)
      return tl::unexpected(written.error());
  fmt::print("{}", options.json ? diagnosis_json(scenario->name, *diagnosis)
                                : diagnosis_page(scenario->name, *diagnosis, context.style));
  return ExitCode::done;
}

Run add_diagnose_options(CLI::App& app) {
  auto options = std::make_shared<DiagnoseOptions>();
  app.add_option("SCENARIO", options->scenario, "the run as it should be")->required();
  add_overrides(app, options->overrides, "replace a value of the scenario, as predict does");
  app.add_option("--measured", options->measured_s,
                 "seconds of a step; default: of --actual, else the scenario's measurement")
      ->type_name("SECONDS")
      ->check(above_zero());
  app.add_option(
         "--actual", options->actual,
         "where the time of ranks went: timeline.json, or its folder; a foreign step graph; recordings, one per rank")
      ->type_name("FILE");
  app.add_option("--step", options->step, "of recordings: which step; default: the last but one")
      ->type_name("NUMBER")
      ->check(at_least_zero());
  app.add_option("--svg", options->svg, "also draw how likely each cause is to this file")->type_name("FILE");
  app.add_flag("--json", options->json, "print one JSON object instead of a page");
  return [options](const Context& context) { return run(*options, context); };
}

}  // namespace

const Command kDiagnoseCommand{"diagnose", "find what explains a step that took longer than its forecast",
                               "diagnose pipeline-1f1b --measured 1.5", add_diagnose_options};

}  // namespace tracecast::cli
