/// \file
/// Errors of forecasts, summed up over rows of a table of runs.
///
/// The measure is that of docs/validation/accuracy.md: median absolute error of the step time per source, then the mean over
/// sources. Sources with fewer than three rows are pooled into one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/io/csv_table.hpp"
#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

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

/// The measure over scored rows.
struct Measure {
  double mean_of_medians = 0;
  /// Mean over sources of the median |error - median error of the source|; none: no source has three rows.
  std::optional<double> scatter;
  int sources = 0;  ///< the pool counts as one
};
Measure measure(const std::vector<const RowForecast*>& rows);

/// Scored rows by the value of a column of the table, or by "architecture" or "stack"; in the order of the names.
std::map<std::string, std::vector<const RowForecast*>> grouped(const CsvTable& table,
                                                               const std::vector<RowForecast>& rows,
                                                               const std::string& column);
std::vector<const RowForecast*> scored(const std::vector<RowForecast>& rows);

/// Forecast peak memory compared with reported peaks, and with which runs completed.
struct MemorySummary {
  int rows = 0;  ///< with a reported peak
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

}  // namespace tracecast::accuracy
