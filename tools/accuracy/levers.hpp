/// \file
/// What-if questions with a known answer: pairs of runs of one source that differ in one lever. The forecast ratio of
/// the GPU time per token against the measured one; what the source has in common cancels.
#pragma once

#include <string>
#include <vector>

#include "sim/io/csv_table.hpp"
#include "tools/accuracy/row_forecast.hpp"
#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

/// A change is judged by its direction only above this.
inline constexpr double kCleanChange = 0.05;

struct LeverErrors {
  std::string lever;
  int pairs = 0;
  double median = 0;  ///< of |forecast ratio / measured ratio - 1|
  double mean = 0;
  int clear = 0;  ///< pairs whose measured ratio is above kCleanChange
  int right = 0;  ///< of those, forecast with the right sign
};

/// Two runs of one source and model that differ in one lever alone.
struct LeverPair {
  std::string lever;
  const RowForecast* a = nullptr;
  const RowForecast* b = nullptr;
  double measured = 0;  ///< ratio of the GPU time per token, b over a
  double forecast = 0;
};

/// All such pairs, lever by lever: layout, scale, sequence, precision, recomputation, schedule, GPU, release, batch, routing,
/// expert exchange, graphs. What follows from a lever (micro-batches from the layout, the batch from the GPU count) may differ too.
std::vector<LeverPair> lever_pairs(const CsvTable& table, const std::vector<const RowForecast*>& rows);

/// Of these pairs, by lever; also of levers without a pair.
std::vector<LeverErrors> lever_errors(const CsvTable& table, const std::vector<const RowForecast*>& rows);

/// A published pair (scenarios/runs/published-pairs.csv) and its forecast.
struct PublishedPair {
  std::string id;
  std::string lever;
  double measured = 0;  ///< ratio of the GPU time per token, b over a
  double forecast = 0;  ///< 0: no row of the table is such a run, or it cannot be forecast
};

/// The row with this id as a table of its own, after changes (COLUMN=VALUE, separated by blanks); empty if there is none.
CsvTable changed_row(const CsvTable& table, const std::string& id, const std::string& changes);

/// Forecasts the pairs of which the columns row_a, row_b and set_a, set_b (COLUMN=VALUE, separated by blanks) name two
/// runs of the table.   Errors: those of validate.
Result<std::vector<PublishedPair>> published_pairs(const CsvTable& pairs, const CsvTable& table,
                                                   const RowLibrary& library, const ValidateOptions& options);

}  // namespace tracecast::accuracy
