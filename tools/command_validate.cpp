/// tracecast validate: forecast every run of a table of measurements, and score the forecasts.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/files.hpp"
#include "sim/report/validation_report.hpp"
#include "sim/validation/ablation.hpp"
#include "tools/build_info.hpp"
#include "tools/command_list.hpp"
#include "tools/environment.hpp"
#include "tools/progress.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string table;
  std::string kernels;
  std::string collectives;
  std::string by;
  bool json = false;
  bool ablation = false;
  std::string html;
  std::string svg;
  int threads = 1;
};

Result<void> check_column(const CsvTable& table, const std::string& by) {
  if (by.empty() || by == "architecture" || by == "stack" || table.has(by)) return {};
  const std::string meant = closest(by, table.header());
  return fail(Diagnostic{
      "", 0, "--by", by,
      meant.empty() ? "is no column of the table" : "is no column of the table (did you mean '" + meant + "'?)"});
}

Result<void> write_pictures(const Options& options, const CsvTable& table, const std::vector<RowForecast>& rows,
                            const Context& context) {
  if (!options.html.empty()) {
    const PageFacts facts{context.command, "tracecast " + version()};
    if (Result<void> written = write_file(options.html, validation_html(table, rows, options.by, facts)); !written)
      return written;
  }
  if (options.svg.empty()) return {};
  return write_file(options.svg, scatter_svg(rows));
}

/// Tables of operators or collectives.
Result<ExitCode> validate_samples(const Options& options, const RowLibrary& library, const Context& context) {
  const bool collectives = options.kernels.empty();
  const Result<CsvTable> table = CsvTable::read(collectives ? options.collectives : options.kernels);
  if (!table) return tl::unexpected(table.error());
  const Result<std::vector<MeasuredSample>> samples =
      collectives ? validate_collectives(*table, library) : validate_kernels(*table, library);
  if (!samples) return tl::unexpected(samples.error());
  fmt::print("{}", options.json ? samples_json(*table, *samples) : samples_page(*samples, collectives, context.style));
  return ExitCode::done;
}

Result<ExitCode> validate_runs(const Options& options, const Context& context) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  const Result<RowLibrary> library = RowLibrary::open(*data);
  if (!library) return tl::unexpected(library.error());
  if (!options.kernels.empty() || !options.collectives.empty()) return validate_samples(options, *library, context);
  if (options.table.empty())
    return fail(Diagnostic{"", 0, "RUNS", "", "is missing: a table of runs (or --kernels or --collectives)"});
  std::error_code code;
  const fs::path shipped = data->scenarios / "runs" / (options.table + ".csv");
  const Result<CsvTable> table =
      CsvTable::read(!fs::exists(options.table, code) && fs::exists(shipped, code) ? shipped : fs::path(options.table));
  if (!table) return tl::unexpected(table.error());
  if (const Result<void> known = check_column(*table, options.by); !known) return tl::unexpected(known.error());
  Progress progress("forecasting", context.show_progress);
  const ValidateOptions how{.threads = options.threads,
                            .progress = [&](int done, int of) { progress.update(done, of); }};
  if (options.ablation) {
    const Result<std::vector<Ablation>> lines = ablate(*table, *library, how);
    if (!lines) return tl::unexpected(lines.error());
    fmt::print("{}", ablation_page(*lines));
    return ExitCode::done;
  }
  const Result<std::vector<RowForecast>> rows = validate(*table, *library, how);
  if (!rows) return tl::unexpected(rows.error());
  if (const Result<void> written = write_pictures(options, *table, *rows, context); !written)
    return tl::unexpected(written.error());
  fmt::print("{}", options.json ? validation_json(*table, *rows, options.by)
                                : validation_page(*table, *rows, options.by, context.style));
  return ExitCode::done;
}

}  // namespace

Run add_validate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  app.add_option("RUNS", options->table, "a table of measured runs (CSV), or the name of one that is shipped");
  CLI::Option* kernels =
      app.add_option("--kernels", options->kernels, "measured operators instead of runs (CSV)")->type_name("FILE");
  CLI::Option* collectives =
      app.add_option("--collectives", options->collectives, "measured collectives instead of runs (CSV)")
          ->type_name("FILE")
          ->excludes(kernels);
  app.add_option("--by", options->by, "also sum up by a column of the table, by architecture or by stack")
      ->type_name("COLUMN");
  CLI::Option* ablation =
      app.add_flag("--ablation", options->ablation,
                   "errors with one effect at a time left out of all forecasts, as a Markdown table");
  app.add_flag("--json", options->json, "print one JSON object instead of a page");
  CLI::Option* html =
      app.add_option("--html", options->html, "also write a page for a browser there: one file, no network needed")
          ->type_name("FILE");
  CLI::Option* svg = app.add_option("--svg", options->svg, "also write forecast against measured there, as a picture")
                         ->type_name("FILE");
  for (CLI::Option* picture : {html, svg}) picture->excludes(kernels)->excludes(collectives)->excludes(ablation);
  app.add_option("--threads", options->threads, "same result for any number")->check(CLI::Range(1, 1024));
  return [options](const Context& context) { return validate_runs(*options, context); };
}

}  // namespace tracecast::cli
