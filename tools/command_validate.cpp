/// \file
/// tracecast validate: forecasts every run of a table of measurements, and scores the forecasts.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/parallel_for.hpp"
#include "sim/io/files.hpp"
#include "sim/io/output_files.hpp"
#include "tools/accuracy/ablation.hpp"
#include "tools/accuracy/collective_tables.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/failure_figures.hpp"
#include "tools/accuracy/kernel_tables.hpp"
#include "tools/accuracy/memory_page.hpp"
#include "tools/accuracy/nested_report.hpp"
#include "tools/accuracy/samples_report.hpp"
#include "tools/accuracy/validation_report.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/environment.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"
#include "tools/progress.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;
using namespace accuracy;

struct ValidateCommandOptions {
  std::string table;
  std::vector<std::string> kernels;
  std::vector<std::string> collectives;
  std::vector<std::string> only;
  std::vector<std::string> set;
  bool markdown = false;
  std::string by;
  bool json = false;
  bool ablation = false;
  bool nested = false;
  bool memory = false;
  std::string html;
  std::string svg;
  int threads = 1;
};

Result<void> check_column(const CsvTable& table, const std::string& by) {
  if (by.empty() || by == "architecture" || by == "stack" || table.has(by)) return {};
  const std::string meant = nearest_match(by, table.header());
  return fail_key("--by", by, "not a column of the table" + (meant.empty() ? "" : " (did you mean '" + meant + "'?)"));
}

Result<void> write_pictures(const ValidateCommandOptions& options, const CsvTable& table,
                            const std::vector<RowForecast>& rows, const Context& context) {
  OutputFiles files;
  const PageMetadata metadata{context.command, "tracecast " + version()};
  if (!options.html.empty()) files.write(options.html, validation_html(table, rows, options.by, metadata));
  if (!options.svg.empty()) files.write(options.svg, scatter_svg(rows));
  return files.commit();
}

/// The given files, with each folder replaced by its tables in the order of their names.
std::vector<fs::path> tables_of(const std::vector<std::string>& names) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const std::string& name : names) {
    if (!fs::is_directory(name, code)) {
      files.emplace_back(name);
      continue;
    }
    std::vector<fs::path> inside;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(name, code)) {
      const std::string file = entry.path().filename().string();
      if (file.ends_with(".csv") || file.ends_with(".csv.gz")) inside.push_back(entry.path());
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

/// Tables of operators or collectives. Other tables in a folder are skipped and listed.
Result<ExitCode> validate_samples(const ValidateCommandOptions& options, const RowLibrary& library,
                                  const Context& context) {
  constexpr std::string_view kMeasuredTable = "a table of measured kernels or collectives";
  const bool collectives = options.kernels.empty();
  const std::vector<std::string>& names = collectives ? options.collectives : options.kernels;
  const std::vector<fs::path> paths = tables_of(names);
  std::vector<std::string> files;
  std::vector<std::string> others;
  std::vector<MeasuredSample> samples;
  Progress progress("forecasting", context.show_progress);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    progress.update(static_cast<int>(i), static_cast<int>(paths.size()));
    const Result<CsvTable> table = of_this_project(CsvTable::read(paths[i]), paths[i], kMeasuredTable);
    if (!table && paths.size() == names.size()) return tl::unexpected(table.error());
    if (!table ||
        (paths.size() > names.size() && !(collectives ? is_collective_table(*table) : is_kernel_table(*table)))) {
      others.push_back(paths[i].filename().string());
      continue;
    }
    Result<std::vector<MeasuredSample>> more =
        of_this_project(collectives ? validate_collectives(*table, library) : validate_kernels(*table, library),
                        paths[i], kMeasuredTable);
    if (!more) return tl::unexpected(more.error());
    for (MeasuredSample& sample : *more) {
      sample.table = static_cast<int>(files.size());
      samples.push_back(std::move(sample));
    }
    files.push_back(paths[i].string());
  }
  if (files.empty())
    return fail_key(collectives ? "--collectives" : "--kernels", names.front(), "contains no known table");
  fmt::print("{}", options.json       ? samples_json(files, samples)
                   : options.markdown ? samples_markdown(samples, collectives)
                                      : samples_page(samples, collectives, context.style));
  if (!others.empty() && !options.json && !options.markdown)
    fmt::print("{}",
               paragraph("  Not read, other tables: ", fmt::format("{}", fmt::join(others, ", ")), context.style));
  return ExitCode::done;
}

/// The table with only the requested rows, and with the changed columns.
Result<CsvTable> narrowed(CsvTable table, const ValidateCommandOptions& options) {
  for (const std::string& id : options.only) {
    if (table.only("id", {id}).rows() > 0) continue;
    std::vector<std::string> ids;
    for (std::size_t row = 0; row < table.rows(); ++row) ids.push_back(table.text(row, "id"));
    const std::string meant = nearest_match(id, ids);
    return fail_key("--only", id, "not an id of the table" + (meant.empty() ? "" : " (did you mean '" + meant + "'?)"));
  }
  if (!options.only.empty()) table = table.only("id", options.only);
  for (const std::string& change : options.set) {
    const std::size_t equals = change.find('=');
    if (equals == std::string::npos || equals == 0) return fail_key("--set", change, "expected COLUMN=VALUE");
    table = table.with(change.substr(0, equals), change.substr(equals + 1));
  }
  return table;
}

/// Scores on runs left out of the fits.
Result<ExitCode> validate_nested(const ValidateCommandOptions& options, const DataPaths& data, const CsvTable& table,
                                 const RowLibrary& library, const ValidateOptions& how) {
  const std::string stem = fs::path(options.table).replace_extension().string();
  const Result<CsvTable> sources = read_run_table(data, stem + "-sources");
  if (!sources) return tl::unexpected(sources.error());
  Result<Nested> nested = nested_scores(table, *sources, library, how);
  if (!nested) return tl::unexpected(nested.error());
  NestedReport report{.nested = std::move(*nested), .levers = {}, .pairs = {}};
  report.levers = lever_errors(table, scored(report.nested.ways.front().held_out));
  if (const Result<CsvTable> pairs = read_run_table(data, stem + "-pairs"); pairs) {
    Result<std::vector<PublishedPair>> forecast = published_pairs(*pairs, table, library, {});
    if (!forecast) return tl::unexpected(forecast.error());
    report.pairs = std::move(*forecast);
  }
  fmt::print("{}", options.json ? nested_json(report) : nested_page(report, options.markdown));
  return ExitCode::done;
}

/// An option that a table of failures has no use for; "": none is given.
std::string option_for_runs(const ValidateCommandOptions& o) {
  const std::pair<bool, const char*> given[] = {
      {!o.only.empty(), "--only"}, {!o.set.empty(), "--set"},   {o.markdown, "--markdown"},
      {!o.by.empty(), "--by"},     {o.ablation, "--ablation"},  {o.nested, "--nested"},
      {o.memory, "--memory"},      {!o.html.empty(), "--html"}, {!o.svg.empty(), "--svg"}};
  const auto* const found = std::ranges::find_if(given, [](const auto& each) { return each.first; });
  return found == std::end(given) ? "" : found->second;
}

/// Failures, restarts, checkpoints and goodput.
Result<ExitCode> validate_failures(const ValidateCommandOptions& options, const DataPaths& data, const CsvTable& table,
                                   const Context& context) {
  const Result<FailureFigures> figures = forecast_failure_figures(table, data, options.threads);
  if (!figures) return tl::unexpected(figures.error());
  fmt::print("{}", options.json ? failure_figures_json(*figures) : failure_figures_page(*figures, context.style));
  return ExitCode::done;
}

/// Forecasts a table of runs and prints what the options ask for.
Result<ExitCode> validate_table(const ValidateCommandOptions& options, const DataPaths& data, const CsvTable& table,
                                const RowLibrary& library, const Context& context) {
  Progress progress("forecasting", context.show_progress);
  const ValidateOptions how{.threads = options.threads,
                            .progress = [&](int done, int of) { progress.update(done, of); }};
  if (options.ablation) {
    const Result<std::vector<Ablation>> lines = ablate(table, library, how);
    if (!lines) return tl::unexpected(lines.error());
    fmt::print("{}", ablation_page(*lines));
    return ExitCode::done;
  }
  if (options.nested) return validate_nested(options, data, table, library, how);
  const Result<std::vector<RowForecast>> rows = validate(table, library, how);
  if (!rows) return tl::unexpected(rows.error());
  if (const Result<void> written = write_pictures(options, table, *rows, context); !written)
    return tl::unexpected(written.error());
  if (options.memory) {
    fmt::print("{}", memory_page(table, *rows));
    return ExitCode::done;
  }
  fmt::print("{}", options.json ? validation_json(table, *rows, options.by)
                                : validation_page(table, *rows, options.by, context.style));
  return scored(*rows).empty() ? ExitCode::no : ExitCode::done;
}

Result<ExitCode> validate_runs(const ValidateCommandOptions& options, const Context& context) {
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  const Result<RowLibrary> library = RowLibrary::open(*data);
  if (!library) return tl::unexpected(library.error());
  if (!options.kernels.empty() || !options.collectives.empty()) {
    if (!options.table.empty()) return fail_key("RUNS", options.table, "is not read with --kernels or --collectives");
    return validate_samples(options, *library, context);
  }
  if (options.table.empty())
    return fail_key(
        "RUNS", "",
        "is required: a CSV file or a name that `tracecast list runs` shows (or --kernels or --collectives)");
  Result<CsvTable> table = read_run_table(*data, options.table);
  if (!table) return tl::unexpected(table.error());
  if (is_failure_table(*table)) {
    if (const std::string option = option_for_runs(options); !option.empty())
      return fail_key(option, "", "is for tables of runs, and this is a table of failures (allowed: --json --threads)");
    return validate_failures(options, *data, *table, context);
  }
  if (options.markdown && !options.nested)
    return fail_key("--markdown", "", "is for operators, collectives and --nested");
  table = narrowed(std::move(*table), options);
  if (!table) return tl::unexpected(table.error());
  if (const Result<void> known = check_column(*table, options.by); !known) return tl::unexpected(known.error());
  return validate_table(options, *data, *table, *library, context);
}

Run add_validate_options(CLI::App& app) {
  auto options = std::make_shared<ValidateCommandOptions>();
  options->threads = thread_count(0);
  app.add_option("RUNS", options->table, "a table of measured runs (CSV), or a name that `tracecast list runs` shows");
  CLI::Option* kernels = app.add_option("--kernels", options->kernels,
                                        "measured operators instead of runs: tables (CSV) or folders of tables")
                             ->type_name("FILE");
  CLI::Option* collectives = app.add_option("--collectives", options->collectives,
                                            "measured collectives instead of runs: tables (CSV) or folders of tables")
                                 ->type_name("FILE")
                                 ->excludes(kernels);
  CLI::Option* by =
      app.add_option("--by", options->by, "also sum up by a column of the table, by architecture or by stack")
          ->type_name("COLUMN")
          ->excludes(kernels)
          ->excludes(collectives);
  CLI::Option* ablation =
      app.add_flag("--ablation", options->ablation,
                   "errors with one effect at a time left out of all forecasts, as a Markdown table");
  CLI::Option* nested =
      app.add_flag("--nested", options->nested,
                   "scores on runs left out of the fits: by source, stack, GPU generation and forward in time; rules, "
                   "factors and levers")
          ->excludes(kernels)
          ->excludes(collectives)
          ->excludes(ablation);
  app.add_option("--only", options->only, "forecast only the runs with these ids")
      ->type_name("ID")
      ->excludes(kernels)
      ->excludes(collectives);
  app.add_option("--set", options->set, "forecast the runs with another value in a column of the table")
      ->type_name("COLUMN=VALUE")
      ->excludes(kernels)
      ->excludes(collectives);
  CLI::Option* memory =
      app.add_flag("--memory", options->memory, "only peak memory, and which runs fit, as a Markdown table")
          ->excludes(kernels)
          ->excludes(collectives)
          ->excludes(ablation)
          ->excludes(nested);
  CLI::Option* json = app.add_flag("--json", options->json, "print one JSON object instead of a page")
                          ->excludes(ablation)
                          ->excludes(memory);
  app.add_flag("--markdown", options->markdown, "for operators, collectives and --nested: print Markdown tables")
      ->excludes(ablation)
      ->excludes(memory)
      ->excludes(json);
  CLI::Option* html = add_html(app, options->html);
  CLI::Option* svg =
      app.add_option("--svg", options->svg, "also write a picture of forecast against measured")->type_name("FILE");
  for (CLI::Option* picture : {html, svg})
    picture->excludes(kernels)->excludes(collectives)->excludes(ablation)->excludes(nested);
  by->excludes(ablation)->excludes(nested)->excludes(memory);
  add_threads(app, options->threads);
  return [options](const Context& context) { return validate_runs(*options, context); };
}

}  // namespace

const Command kValidateCommand{"validate", "forecast every run of a table of measurements and score the forecasts",
                               "validate korthikanti --by recompute", add_validate_options};

}  // namespace tracecast::cli
