/// `tracecast compare`: compares a forecast with an executed step or with another forecast.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/output_files.hpp"
#include "sim/report/compare_report.hpp"
#include "sim/report/report_page.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/import_results.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

struct CompareOptions {
  std::string forecast;
  std::vector<std::string> actual;
  std::int64_t step = -1;
  double tolerance = 0.1;
  bool json = false;
  std::string svg;
  std::string html;
};

/// A timeline or a step graph; or recordings, one per rank. Of some known ranks only, `forecast` becomes that of these.
Result<StepRecord> read_actual(const CompareOptions& options, StepRecord& forecast) {
  const Result<bool> recorded = is_recording(options.actual.front());
  if (!recorded) return tl::unexpected(recorded.error());
  if (*recorded) {
    Result<RecordedRanks> actual = read_recorded_step(options.actual, options.step, forecast);
    if (!actual) return tl::unexpected(actual.error());
    if (actual->named) forecast = with_recorded_ranks(std::move(forecast), actual->record);
    return std::move(actual->record);
  }
  if (options.actual.size() == 1) return read_any_step(options.actual.front());
  return fail_key("ACTUAL", options.actual.front(), "not a recording: several files must be recordings of one run");
}

Result<ExitCode> run(const CompareOptions& options, const Context& context) {
  Result<StepRecord> forecast = read_any_step(options.forecast);
  if (!forecast) return tl::unexpected(forecast.error());
  const Result<StepRecord> actual = read_actual(options, *forecast);
  if (!actual) return tl::unexpected(actual.error());
  const Result<Comparison> comparison = compare(*forecast, *actual, options.tolerance);
  if (!comparison) return tl::unexpected(comparison.error());
  OutputFiles files;
  if (!options.svg.empty()) files.write(options.svg, comparison_svg(*comparison, *forecast, *actual));
  const PageMetadata metadata{context.command, "tracecast " + version()};
  if (!options.html.empty()) files.write(options.html, compare_html(*comparison, *forecast, *actual, metadata));
  if (const Result<void> written = files.commit(); !written) return tl::unexpected(written.error());
  fmt::print("{}", options.json ? comparison_json(*comparison)
                                : comparison_page(*comparison, *forecast, *actual, context.style));
  return comparison->within() ? ExitCode::done : ExitCode::no;
}

Run add_compare_options(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  app.add_option("FORECAST", options->forecast, "timeline.json of predict --out, or its folder")->required();
  app.add_option("ACTUAL", options->actual,
                 "timeline.json of execute --out (or of another forecast), or its folder; a foreign step graph; "
                 "recordings, one "
                 "per rank of the run")
      ->required();
  app.add_option("--step", options->step, "of recordings: which step; default: the last but one")
      ->type_name("NUMBER")
      ->check(at_least_zero());
  app.add_option("--tolerance", options->tolerance,
                 "largest relative error of the step time; above it the exit code is 1")
      ->check(in_range(0.0, 100.0))
      ->capture_default_str();
  app.add_flag("--json", options->json, "print one JSON object instead of a page");
  app.add_option("--svg", options->svg, "also draw both timelines on one axis to this file")->type_name("FILE");
  add_html(app, options->html);
  return [options](const Context& context) { return run(*options, context); };
}

}  // namespace

const Command kCompareCommand{
    "compare", "compare a forecast with an executed step, operator by operator",
    "compare docs/validation/cpu-forecast.json docs/validation/cpu-executed.json --tolerance 1", add_compare_options};

}  // namespace tracecast::cli
