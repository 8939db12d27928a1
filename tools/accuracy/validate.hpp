/// \file
/// Forecasts of every run of a table beside what was measured, with errors, bands and memory.
///
/// Which rows count, and how errors are summed up, is the table's own rule (docs/formats/runs.md): completed runs of class
/// full or assumed; median absolute error of the step time per source, then the mean over sources, where sources with fewer
/// than three rows are pooled into one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/sensitivities.hpp"
#include "tools/accuracy/row_scenario.hpp"

namespace tracecast::accuracy {

/// One row of the table.
struct RowForecast {
  std::size_t row = 0;  ///< of the table
  std::string id;
  std::string source;
  std::string architecture;  ///< of the GPU: "Hopper"
  std::string stack;
  bool moe = false;
  bool out_of_memory = false;  ///< the run ended so
  double measured_s = 0;       ///< 0: no step time printed
  double predicted_s = 0;
  Band band;
  double deviation = 0;      ///< relative standard deviation that the band was made of
  double kernel_spread = 0;  ///< its part that belongs to the costs of kernels, collectives and the host
  double stack_spread = 0;   ///< its part that belongs to the software stack
  double layout_spread = 0;  ///< its part for what is not printed, and for unknown dispatchers of experts
  Sensitivities sensitivities;
  double predicted_memory_gib = 0;
  double comparable_memory_gib = 0;  ///< the part of it that the measurement counts
  double measured_memory_gib = 0;    ///< 0: none printed
  double capacity_gib = 0;
  bool fits = true;
  std::vector<std::string> assumptions;
  std::string skipped;  ///< why; "": it was forecast

  bool forecast_made() const { return skipped.empty(); }
  bool scored() const { return skipped.empty() && !out_of_memory && measured_s > 0; }
  double error() const { return predicted_s / measured_s - 1; }
  double memory_error() const { return comparable_memory_gib / measured_memory_gib - 1; }
  bool inside_band() const { return measured_s >= band.p5_s && measured_s <= band.p95_s; }
};

/// Factors on the kinds of work of one row's machine; by default none.
using FactorsOf = std::function<CostScales(const RowScenario&)>;

struct ValidateOptions {
  int threads = 1;
  FactorsOf factors{};                               ///< empty: the profiles as they are
  std::function<void(RowScenario&)> change{};        ///< of every scenario before it is forecast: for ablations
  ForecastOptions forecast{.record_spans = true};    ///< of every row; without spans bands have no kernels' part
  std::function<void(int done, int of)> progress{};  ///< from the calling thread's side, now and then
};

/// One per row of the table, in its order; every row is either forecast or says why not. Same result for any number of
/// threads.   Errors: a table without a column that every row needs.
Result<std::vector<RowForecast>> validate(const CsvTable& table, const RowLibrary& library,
                                          const ValidateOptions& options = {});

/// The same for several sets of factors, an empty one for the profiles as they are: every step is built once.
/// `options.factors` says nothing here.
std::vector<std::vector<RowForecast>> validate_each(const CsvTable& table, const RowLibrary& library,
                                                    const std::vector<FactorsOf>& sets,
                                                    const ValidateOptions& options = {});

/// Errors of some rows.
struct ErrorSummary {
  int rows = 0;
  double mean = 0;    ///< of absolute relative errors
  double median = 0;  ///< of the same
  double worst = 0;
  double bias = 0;        ///< median of the signed ones
  double within_10 = 0;   ///< share
  double coverage = 0;    ///< share of measurements inside the 90 % band
  double half_width = 0;  ///< median of (p95 - p5) / 2 / p50
};
ErrorSummary summarise(const std::vector<const RowForecast*>& rows);

/// The published measure over scored rows.
struct Measure {
  double mean_of_medians = 0;
  double scatter = 0;  ///< mean over sources of the median |error - median error of the source|, sources with >= 3 rows
  int sources = 0;     ///< the pool counts as one
};
Measure measure(const std::vector<const RowForecast*>& rows);

/// Scored rows, by the value of a column of the table or of "architecture" or "stack"; in the order of the names.
std::map<std::string, std::vector<const RowForecast*>> grouped(const CsvTable& table,
                                                               const std::vector<RowForecast>& rows,
                                                               const std::string& column);
std::vector<const RowForecast*> scored(const std::vector<RowForecast>& rows);

/// Peak memory against what was printed, and against what happened.
struct MemorySummary {
  int rows = 0;  ///< with a printed figure
  double mean = 0;
  double worst = 0;
  double bias = 0;             ///< mean signed error
  int completed = 0;           ///< runs that completed and were forecast
  int completed_fit = 0;       ///< of those, forecast to fit
  int out_of_memory = 0;       ///< runs that ended so
  int out_of_memory_seen = 0;  ///< of those, forecast not to fit
};
/// Of all rows, or of one source's.
MemorySummary summarise_memory(const std::vector<RowForecast>& rows, const std::string& source = "");

/// The quantile of a lognormal around `p50` with this relative deviation.
Band band_around(double p50_s, double deviation);

}  // namespace tracecast::accuracy
