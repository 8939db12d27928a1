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

#include "sim/base/parallel_for.hpp"
#include "sim/io/files.hpp"
#include "tools/accuracy/calibration_report.hpp"
#include "tools/accuracy/decisions.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/command_rows.hpp"
#include "tools/environment.hpp"
#include "tools/option_checks.hpp"
#include "tools/option_error.hpp"
#include "tools/progress.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;
using namespace accuracy;

struct Options {
  std::string published;
  std::string runs;
  std::string like;
  std::string out;
  std::string evidence;
  int threads = 1;
};

Result<ExitCode> fit_published(const Options& options, const DataPaths& data, const Context& context) {
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
Result<void> write_profile(const Options& options, const DataPaths& data, const std::string& name, double scale,
                           std::size_t runs) {
  Result<Profile> profile = read_profile(data.profiles / (name + ".json"));
  if (!profile) return tl::unexpected(profile.error());
  InTraining& f = profile->in_training;
  for (double* factor :
       {&f.gemm, &f.gemm_fp8, &f.gemm_fp8_block, &f.gemm_fp4, &f.attention, &f.scores, &f.softmax, &f.memory})
    *factor *= scale;
  profile->host.launch *= scale;
  profile->name = fs::path(options.out).stem().string();
  f.fit.data +=
      fmt::format("; scaled by {:.3f} to {} runs of {}", scale, runs, fs::path(options.runs).filename().string());
  return write_file(options.out, to_json(*profile));
}

/// Prints one sentence about a requested run. Returns the factor on its forecast, if one was found.
std::optional<double> print_scale(const CsvTable& table, const RowForecast& row,
                                  const std::vector<const RowForecast*>& known) {
  const std::optional<double> scale = own_scale(table, row, known);
  if (!scale) {
    fmt::print(
        "{}: fewer than three measured runs are similar (same GPU, similar model, layout and batch);\n"
        "a scale from other runs would do harm. The forecast stays {:.4g} s.\n",
        row.id, row.predicted_s);
    return scale;
  }
  fmt::print("{}: {:.4g} s as shipped, {:.4g} s with the factor {:.3f} of the three most similar runs", row.id,
             row.predicted_s, row.predicted_s * *scale, *scale);
  if (row.scored()) fmt::print("; measured {:.4g} s", row.measured_s);
  fmt::print("\n");
  return scale;
}

Result<ExitCode> fit_own(const Options& options, const DataPaths& data) {
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
  ExitCode code = ExitCode::done;
  for (const RowForecast* row : runs) {
    const std::optional<double> scale = print_scale(*table, *row, known);
    if (!scale) code = ExitCode::no;
    if (!scale || options.out.empty()) continue;
    const Result<RowScenario> scenario = scenario_of_row(*table, row->row, *library);
    if (!scenario) return tl::unexpected(scenario.error());
    const Result<void> written = write_profile(options, data, scenario->scenario.profile.name, *scale, 3);
    if (!written) return tl::unexpected(written.error());
  }
  return code;
}

Result<ExitCode> calibrate(const Options& options, const Context& context) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  if (!options.published.empty()) return fit_published(options, *data, context);
  if (options.runs.empty()) return fail("give --runs and --like, or --published");
  return fit_own(options, *data);
}

Run add_options(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->threads = thread_count(0);
  CLI::Option* published =
      app.add_option(
             "--published", options->published,
             "fit factors to a table of runs, cross-validated by leaving out whole sources; --out: also as a page")
          ->type_name("RUNS");
  CLI::Option* runs =
      app.add_option("--runs", options->runs, "your own runs: scale a forecast by the three most similar runs")
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
  app.add_option("--threads", options->threads, "same result for any number")->check(in_range(1, 1024));
  return [options](const Context& context) { return calibrate(*options, context); };
}

}  // namespace

const Command kCalibrateCommand{"calibrate",
                                "fit to published runs with cross-validation, or scale to your own cluster",
                                "calibrate --runs korthikanti --like korthikanti-175b-full", add_options};

}  // namespace tracecast::cli
