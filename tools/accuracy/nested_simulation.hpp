/// \file
/// The rows of nested scores (nested.hpp), simulated with some of the rules.
#pragma once

#include <vector>

#include "tools/accuracy/nested.hpp"

namespace tracecast::accuracy {

/// [row of the table] All rows that `rule` changes, without it; the others without a forecast.   `plain`: with all rules
Result<std::vector<RowForecast>> without_rule(const CsvTable& table, const RowLibrary& library,
                                              const ValidateOptions& options, const std::vector<RowForecast>& plain,
                                              std::size_t rule);

/// Fills in the rows that a way tests, simulated with the rules and factors of their folds, and their bands.
Result<void> simulate_way(const CsvTable& table, const RowLibrary& library, const ValidateOptions& options,
                          const std::vector<RowForecast>& plain, Way& way);

}  // namespace tracecast::accuracy
