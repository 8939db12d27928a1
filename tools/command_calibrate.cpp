/// \file
/// tracecast calibrate: fits factors to published runs with cross-validation, or a scale to the user's own runs.
#include <algorithm>
#include <cmath>
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
#include "sim/io/output_files.hpp"
#include "sim/report/text.hpp"
#include "tools/accuracy/calibration_report.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/own_profile.hpp"
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
  OutputFiles files;
  if (!options.out.empty()) files.write(options.out, page);
  if (!options.evidence.empty()) {
    const Result<std::string> evidence = evidence_table(*table, *library, *result);
    if (!evidence) return tl::unexpected(evidence.error());
    files.write(options.evidence, *evidence);
  }
  if (const Result<void> written = files.commit(); !written) return tl::unexpected(written.error());
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

/// A requested run beside its correction.
struct Corrected {
  const RowForecast* row = nullptr;
  OwnFit fit;
};

/// What --runs and --like ask for.
struct Corrections {
  std::vector<Corrected> runs;
  std::vector<const RowForecast*> known;                      ///< measured runs that correct others
  bool own_counts = false;                                    ///< the measurement of a requested run, too: with --out
  std::vector<std::pair<std::string, std::string>> left_out;  ///< id, reason
  std::string file;                                           ///< of the profile; "": none is asked for
  std::optional<WorkScale> profile;
};

std::vector<const RowForecast*> without(std::vector<const RowForecast*> runs, const RowForecast* run) {
  std::erase(runs, run);
  return runs;
}

Corrections corrected(const std::vector<RowForecast>& rows, const std::vector<const RowForecast*>& runs,
                      const CalibrateOptions& options) {
  Corrections out;
  out.file = options.out;
  out.own_counts = !options.out.empty();
  for (const RowForecast& row : rows) {
    if (std::string reason = why_left_out(row); !reason.empty())
      out.left_out.emplace_back(row.id, std::move(reason));
    else if (row.scored())
      out.known.push_back(&row);
  }
  for (const RowForecast* row : runs)
    out.runs.push_back({row, own_fit(*row, out.own_counts ? out.known : without(out.known, row))});
  return out;
}

/// The error that is left when the other runs correct this one.
double error_by_the_others(const RowForecast& row, const std::vector<const RowForecast*>& known) {
  return (1 + row.error()) * own_fit(row, without(known, &row)).factor - 1;
}

/// The profile of the run's GPU with that scale, for runs like it.
Result<void> write_profile(const CalibrateOptions& options, const DataPaths& data, const Corrected& run, double scale) {
  const RunTraits& traits = run.row->traits;
  Result<Profile> profile = read_profile(data.profiles / (traits.gpu + ".json"));
  if (!profile) return tl::unexpected(profile.error());
  scale_work(*profile, scale);
  profile->name = fs::path(options.out).stem().string();
  profile->in_training.fit.data +=
      fmt::format("; scaled by {:.3f} for runs like {} ({}), from {} {} of {}", scale, run.row->id, levers_text(traits),
                  run.fit.runs, run.fit.runs == 1 ? "run" : "runs", fs::path(options.runs).filename().string());
  return write_file(options.out, to_json(*profile));
}

std::string corrections_json(const Corrections& all) {
  nlohmann::ordered_json out = {{"runs", nlohmann::ordered_json::array()},
                                {"measured", nlohmann::ordered_json::array()},
                                {"left_out", nlohmann::ordered_json::array()}};
  for (const auto& [row, fit] : all.runs) {
    out["runs"].push_back({{"id", row->id},
                           {"levers", levers_text(row->traits)},
                           {"forecast_s", row->predicted_s},
                           {"factor", fit.factor},
                           {"corrected_s", row->predicted_s * fit.factor},
                           {"p5_s", fit.low_s},
                           {"p95_s", fit.high_s},
                           {"explained", fit.explained},
                           {"measured_runs", fit.runs}});
    if (!row->scored()) continue;
    out["runs"].back()["measured_s"] = row->measured_s;
    out["runs"].back()["own_measurement_counts"] = all.own_counts;
  }
  for (const RowForecast* row : all.known)
    out["measured"].push_back({{"id", row->id},
                               {"levers", levers_text(row->traits)},
                               {"measured_s", row->measured_s},
                               {"forecast_s", row->predicted_s},
                               {"error", row->error()},
                               {"error_by_the_others", error_by_the_others(*row, all.known)}});
  for (const auto& [id, reason] : all.left_out) out["left_out"].push_back({{"id", id}, {"reason", reason}});
  if (all.profile && all.profile->scale)
    out["profile"] = {{"file", all.file}, {"scale", *all.profile->scale}, {"step_time_s", all.profile->step_s}};
  return json_file(out);
}

std::string run_lines(const Corrections& all, const TextTable& columns, const Corrected& run) {
  const auto& [row, fit] = run;
  std::string text =
      columns.row(row->id, fmt::format("{:.4g}", row->predicted_s), fmt::format("{:.3f}", fit.factor),
                  fmt::format("{:.4g}", row->predicted_s * fit.factor),
                  fmt::format("{:.4g} to {:.4g}", fit.low_s, fit.high_s), fit.runs, percent(fit.explained, 0));
  if (row->scored())
    text += fmt::format("  measured {:.4g} s, which is {}\n", row->measured_s,
                        !all.own_counts              ? "not used"
                        : why_left_out(*row).empty() ? "used"
                                                     : "left out");
  if (fit.runs == 0)
    text += fmt::format("  {}: the forecast stays\n", all.known.empty()
                                                          ? "no measured run can be used"
                                                          : "no measured run is similar (same GPU, close layout)");
  return text;
}

std::string profile_lines(const Corrections& all) {
  const Corrected& run = all.runs.front();
  const double target = run.row->predicted_s * run.fit.factor;
  const WorkScale& profile = *all.profile;
  if (!profile.scale)
    return fmt::format(
        "  no profile is written: with kernels and host {} as long this run takes {:.4g} s, not {:.4g} s\n",
        target > run.row->predicted_s ? "four times" : "a quarter", profile.step_s, target);
  std::string text = fmt::format("  {}: kernels and host x {:.3f}, with which this run takes {:.4g} s\n", all.file,
                                 *profile.scale, profile.step_s);
  text +=
      "  forecasts with it keep the 90 % band of any run: those with this command's band are the corrected ones "
      "above\n";
  const bool mostly_others = std::abs(std::log(*profile.scale)) > 2 * std::abs(std::log(run.fit.factor));
  if (mostly_others) text += "  most of its time is not theirs: this scale is wrong for runs with fewer transfers\n";
  return text;
}

std::string measured_table(const std::vector<const RowForecast*>& known) {
  if (known.empty()) return "";
  const TextTable columns({-24, 12, 12, 9, 14, -1}, 0, 2);
  std::string text =
      "\n" + columns.row("measured run", "measured s", "forecast s", "error", "by the others", "precision, levers");
  for (const RowForecast* row : known)
    text += columns.row(row->id, fmt::format("{:.4g}", row->measured_s), fmt::format("{:.4g}", row->predicted_s),
                        signed_percent(row->error()), signed_percent(error_by_the_others(*row, known)),
                        levers_text(row->traits));
  return text;
}

std::string corrections_page(const Corrections& all) {
  const TextTable columns({-24, 12, 8, 12, 22, 8, 10}, 0);
  std::string text = columns.row("run", "forecast s", "factor", "corrected s", "90 %", "runs", "explained");
  for (const Corrected& run : all.runs) text += run_lines(all, columns, run);
  if (all.profile) text += profile_lines(all);
  text += measured_table(all.known);
  if (all.left_out.empty()) return text;
  const TextTable others({-24, -1}, 0, 2);
  text += "\n" + others.row("left out", "reason");
  for (const auto& [id, reason] : all.left_out) text += others.row(id, reason);
  return text;
}

/// The runs to correct.   Errors: none, one that cannot be forecast, several where one is needed.
Result<std::vector<const RowForecast*>> runs_to_correct(const CalibrateOptions& options,
                                                        const std::vector<RowForecast>& rows) {
  std::vector<const RowForecast*> runs = requested(rows, options.like);
  if (runs.empty() && options.like.empty())
    return fail_key("--like", "", "is required: the id of a run, since no run without a step time can be forecast");
  if (runs.empty()) return fail_key("--like", options.like, "not an id of a run in the table");
  if (!runs.front()->forecast_made())
    return fail_key("--like", options.like, "cannot be forecast: " + runs.front()->skipped);
  if (runs.size() > 1 && !options.out.empty())
    return fail_key("--out", options.out, "needs --like: one run of several");
  return runs;
}

Result<ExitCode> fit_own(const CalibrateOptions& options, const DataPaths& data) {
  const Result<RowLibrary> library = RowLibrary::open(data);
  if (!library) return tl::unexpected(library.error());
  const Result<CsvTable> table = read_run_table(data, options.runs);
  if (!table) return tl::unexpected(table.error());
  const Result<std::vector<RowForecast>> rows = validate(*table, *library, {.threads = options.threads});
  if (!rows) return tl::unexpected(rows.error());
  const Result<std::vector<const RowForecast*>> runs = runs_to_correct(options, *rows);
  if (!runs) return tl::unexpected(runs.error());
  Corrections all = corrected(*rows, *runs, options);
  const Corrected& first = all.runs.front();
  if (!options.out.empty() && first.fit.runs > 0)
    all.profile = work_scale(*table, *first.row, *library, first.row->predicted_s * first.fit.factor);
  if (all.profile && all.profile->scale)
    if (const Result<void> written = write_profile(options, data, first, *all.profile->scale); !written)
      return tl::unexpected(written.error());
  fmt::print("{}", options.json ? corrections_json(all) : corrections_page(all));
  const bool uncorrected = std::ranges::any_of(all.runs, [](const Corrected& run) { return run.fit.runs == 0; });
  return uncorrected || (all.profile && !all.profile->scale) ? ExitCode::no : ExitCode::done;
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
  app.add_option("--out", options->out,
                 "with --runs: write a profile with which the run of --like takes its corrected time")
      ->type_name("FILE");
  app.add_option("--evidence", options->evidence,
                 "with --published: write every run with its error without its source, for scenarios/runs")
      ->type_name("FILE")
      ->needs(published);
  app.add_flag("--json", options->json, "with --runs: print one JSON object instead of tables")->needs(runs);
  add_threads(app, options->threads);
  return [options](const Context& context) { return calibrate(*options, context); };
}

}  // namespace

const Command kCalibrateCommand{"calibrate",
                                "fit to published runs with cross-validation, or scale to your own cluster",
                                "calibrate --runs korthikanti --like korthikanti-175b-full", add_calibrate_options};

}  // namespace tracecast::cli
