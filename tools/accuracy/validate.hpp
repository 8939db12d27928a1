/// \file
/// Forecasts of every run of a table beside what was measured, with prediction intervals and peak memory.
///
/// Which rows count is part of the table (docs/formats/runs.md): completed runs of class full or assumed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/sensitivities.hpp"
#include "tools/accuracy/row_forecast.hpp"
#include "tools/accuracy/rows/row_scenario.hpp"

namespace tracecast::accuracy {

/// Factors on the kinds of work for the machine of one row.
using FactorsOf = std::function<CostScales(const RowScenario&)>;

struct ValidateOptions {
  int threads = 1;
  FactorsOf factors{};                               ///< empty: the profiles as they are
  std::function<void(RowScenario&)> change{};        ///< of every scenario before it is forecast: for ablations
  ForecastOptions forecast{.record_spans = true};    ///< of every row; without spans bands have no kernels' part
  bool bands = true;                                 ///< false: no host's part, which asks for one more simulation
  std::function<bool(std::size_t row)> wanted{};     ///< empty: all rows; the others are skipped
  std::function<void(int done, int of)> progress{};  ///< called from the calling thread, from time to time
};

/// One forecast per row of the table, in its order. A row without a forecast has the reason in `skipped`. The result
/// does not depend on the number of threads.   Errors: a table without a column that every row needs.
Result<std::vector<RowForecast>> validate(const CsvTable& table, const RowLibrary& library,
                                          const ValidateOptions& options = {});

/// The same for several sets of factors, an empty one for the profiles as they are. Every step is built once.
/// `options.factors` is not used.
std::vector<std::vector<RowForecast>> validate_each(const CsvTable& table, const RowLibrary& library,
                                                    const std::vector<FactorsOf>& sets,
                                                    const ValidateOptions& options = {});

}  // namespace tracecast::accuracy
