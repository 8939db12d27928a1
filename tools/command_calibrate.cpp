/// \file
/// tracecast calibrate: fits factors to published runs with cross-validation, or a scale to the user's own runs.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/base/parallel_for.hpp"
#include "sim/io/files.hpp"
#include "sim/report/text.hpp"
#include "tools/accuracy/calibration_report.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/own_runs.hpp"
#include "tools/command_rows.hpp"
#include "tools/environment.hpp"
#include "tools/option_checks.hpp"
#include "tools/progress.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;
using namespace accuracy;

struct CalibrateOptions {
  std::string published;
  std::string runs;
  std::string like;
  std::string out;
  std::string evidence;
  int threads = 1;
  bool json = false;
};

Result<ExitCode> fit_published(const CalibrateOptions& options, const DataPaths& data, const Context& context) {
  const Result<RowLibrary> library = RowLibrary::open(data);
  if (!library) return tl::unexpected(library.error());
  const Result<CsvTable> table = read_run_table(data, options.published);
  if (!table) return tl::unexpected(table.error());
  Progress progress("forecasting", context.show_progress);
  const ValidateOptions how{.threads = options.threads,
                            .progress = [&](int done, int of) { progress.update(done, of); }};
  const Result<CrossValidation> result = cross_validate(*table, *library, how);
  if (!result) return tl::unexpected(result.error());
  if (scored(result->plain).empty()) return fail_key("--published", options.published, "has no row that can be scored");
  const std::string page = calibration_page(*table, *result);
  if (!options.out.empty())
    if (const Result<void> written = write_file(options.out, page); !written) return tl::unexpected(written.error());
  if (!options.evidence.empty()) {
    const Result<std::string> evidence = evidence_table(*table, *library, *result);
    if (!evidence) return tl::unexpected(evidence.error());
    if (const Result<void> written = write_file(options.evidence, *evidence); !written)
      return tl::unexpected(written.error());
  }
  fmt::print("{}", page);
  return ExitCode::done;
}

/// The row of this id, or all rows without a step time.
std::vector<const RowForecast*> requested(const std::vector<RowForecast>& rows, const std::string& id) {
  std::vector<const RowForecast*> found;
  for (const RowForecast& row : rows)
    if (id.empty() ? row.forecast_made() && !row.out_of_memory && row.measured_s <= 0 : row.id == id)
      found.push_back(&row);
  return found;
}

/// The profile of the row's GPU with every time multiplied.
/// `like`: the run that the scale was found for, with its precision and levers.
Result<void> write_profile(const CalibrateOptions& options, const DataPaths& data, const std::string& name,
                           const OwnFit& fit, const std::string& like) {
  Result<Profile> profile = read_profile(data.profiles / (name + ".json"));
  if (!profile) return tl::unexpected(profile.error());
  InTraining& f = profile->in_training;
  for (double* factor : {&f.gemm, &f.gemm_fp8, &f.gemm_fp8_block, &f.gemm_fp4, &f.grouped_gemm, &f.attention, &f.scores,
                         &f.softmax, &f.memory})
    *factor *= fit.factor;
  profile->host.scale_eager(fit.factor);
  profile->name = fs::path(options.out).stem().string();
  f.fit.data += fmt::format("; scaled by {:.3f} for runs like {}, from {} {} of {}", fit.factor, like, fit.runs,
                            fit.runs == 1 ? "run" : "runs", fs::path(options.runs).filename().string());
  return write_file(options.out, to_json(*profile));
}

/// A requested run beside its correction.
struct Corrected {
  const RowForecast* row = nullptr;
  OwnFit fit;
};

std::string corrections_json(const CsvTable& table, const std::vector<Corrected>& runs,
                             const std::vector<const RowForecast*>& known) {
  nlohmann::ordered_json out = {{"runs", nlohmann::ordered_json::array()},
                                {"measured", nlohmann::ordered_json::array()}};
  for (const auto& [row, fit] : runs) {
    out["runs"].push_back({{"id", row->id},
                           {"levers", levers_text(table, *row)},
                           {"forecast_s", row->predicted_s},
                           {"factor", fit.factor},
                           {"corrected_s", row->predicted_s * fit.factor},
                           {"p5_s", fit.low_s},
                           {"p95_s", fit.high_s},
                           {"explained", fit.explained},
                           {"measured_runs", fit.runs}});
    if (row->scored()) out["runs"].back()["measured_s"] = row->measured_s;
  }
  for (const RowForecast* row : known) {
    const OwnFit others = own_fit(table, *row, known);
    out["measured"].push_back({{"id", row->id},
                               {"levers", levers_text(table, *row)},
                               {"measured_s", row->measured_s},
                               {"forecast_s", row->predicted_s},
                               {"error", row->error()},
                               {"error_by_the_others", (1 + row->error()) * others.factor - 1}});
  }
  return json_file(out);
}

std::string corrections_page(const CsvTable& table, const std::vector<Corrected>& runs,
                             const std::vector<const RowForecast*>& known) {
  const TextTable columns({-24, 12, 8, 12, 22, 8, 10}, 0);
  std::string text = columns.row("run", "forecast s", "factor", "corrected s", "90 %", "runs", "explained");
  for (const auto& [row, fit] : runs) {
    text += columns.row(row->id, fmt::format("{:.4g}", row->predicted_s), fmt::format("{:.3f}", fit.factor),
                        fmt::format("{:.4g}", row->predicted_s * fit.factor),
                        fmt::format("{:.4g} to {:.4g}", fit.low_s, fit.high_s), fit.runs, percent(fit.explained, 0));
    if (row->scored()) text += fmt::format("  measured {:.4g} s\n", row->measured_s);
    if (fit.runs == 0) text += "  no measured run is similar (same GPU, close layout): the forecast stays\n";
  }
  const TextTable measured({-24, 12, 12, 9, 14, -1}, 0, 2);
  text +=
      "\n" + measured.row("measured run", "measured s", "forecast s", "error", "by the others", "precision, levers");
  for (const RowForecast* row : known) {
    const OwnFit others = own_fit(table, *row, known);
    text += measured.row(row->id, fmt::format("{:.4g}", row->measured_s), fmt::format("{:.4g}", row->predicted_s),
                         signed_percent(row->error()), signed_percent((1 + row->error()) * others.factor - 1),
                         levers_text(table, *row));
  }
  return text;
}

Result<ExitCode> fit_own(const CalibrateOptions& options, const DataPaths& data) {
  const Result<RowLibrary> library = RowLibrary::open(data);
  if (!library) return tl::unexpected(library.error());
  const Result<CsvTable> table = read_run_table(data, options.runs);
  if (!table) return tl::unexpected(table.error());
  const Result<std::vector<RowForecast>> rows = validate(*table, *library, {.threads = options.threads});
  if (!rows) return tl::unexpected(rows.error());
  const std::vector<const RowForecast*> runs = requested(*rows, options.like);
  if (runs.empty() && options.like.empty())
    return fail_key("--like", "", "is required: the id of a run, since every run has a step time");
  if (runs.empty()) return fail_key("--like", options.like, "not an id of a run in the table");
  if (!runs.front()->forecast_made())
    return fail_key("--like", options.like, "cannot be forecast: " + runs.front()->skipped);
  if (runs.size() > 1 && !options.out.empty())
    return fail_key("--out", options.out, "needs --like: one run of several");
  const std::vector<const RowForecast*> known = scored(*rows);
  std::vector<Corrected> corrected;
  for (const RowForecast* row : runs) corrected.push_back({row, own_fit(*table, *row, known)});
  fmt::print("{}",
             options.json ? corrections_json(*table, corrected, known) : corrections_page(*table, corrected, known));
  for (const auto& [row, fit] : corrected) {
    if (fit.runs == 0) return ExitCode::no;
    if (options.out.empty()) continue;
    const Result<RowScenario> scenario = scenario_of_row(*table, row->row, *library);
    if (!scenario) return tl::unexpected(scenario.error());
    const std::string like = fmt::format("{} ({})", row->id, levers_text(*table, *row));
    const Result<void> written = write_profile(options, data, scenario->scenario.profile.name, fit, like);
    if (!written) return tl::unexpected(written.error());
  }
  return ExitCode::done;
}

Result<ExitCode> calibrate(const CalibrateOptions& options, const Context& context) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  if (!options.published.empty()) return fit_published(options, *data, context);
  if (options.runs.empty()) return fail("give --runs and --like, or --published");
  return fit_own(options, *data);
}

Run add_calibrate_options(CLI::App& app) {
  auto options = std::make_shared<CalibrateOptions>();
  options->threads = thread_count(0);
  CLI::Option* published =
      app.add_option(
             "--published", options->published,
             "fit factors to a table of runs, cross-validated by leaving out whole sources; --out: also as a page")
          ->type_name("RUNS");
  CLI::Option* runs = app.add_option("--runs", options->runs,
                                     "your own measured runs, one or more: correct forecasts by those that are similar")
                          ->type_name("RUNS")
                          ->excludes(published);
  app.add_option("--like", options->like, "with --runs: id of the run to forecast; default: all without a step time")
      ->type_name("ID")
      ->needs(runs);
  app.add_option("--out", options->out, "with --runs: write a profile with that scale, for cluster.profile")
      ->type_name("FILE");
  app.add_option("--evidence", options->evidence,
                 "with --published: write every run with its error without its source, for scenarios/runs")
      ->type_name("FILE")
      ->needs(published);
  app.add_flag("--json", options->json, "with --runs: print one JSON object instead of tables")->needs(runs);
  app.add_option("--threads", options->threads, "threads; same result for any number")->check(in_range(1, 1024));
  return [options](const Context& context) { return calibrate(*options, context); };
}

}  // namespace

const Command kCalibrateCommand{"calibrate",
                                "fit to published runs with cross-validation, or scale to your own cluster",
                                "calibrate --runs korthikanti --like korthikanti-175b-full", add_calibrate_options};

}  // namespace tracecast::cli
