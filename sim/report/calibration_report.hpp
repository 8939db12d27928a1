/// What `tracecast calibrate` prints, and the pages of docs/validation that it writes.
#pragma once

#include <string>

#include "sim/validation/calibration.hpp"

namespace tracecast {

/// The factors by architecture; errors as the profiles are, fitted, and cross-validated, by model and GPU; bands; decisions.
std::string calibration_page(const CsvTable& table, const CrossValidation& result);

/// The measure of the rows that `keep` keeps, "-" when there are none: "7.1 (12 sources)".
struct Subset {
  std::string name;
  std::vector<const RowForecast*> rows;
};
/// all, dense, full rows, MoE; each also by GPU family.
std::vector<Subset> subsets(const CsvTable& table, const std::vector<RowForecast>& rows);

/// Errors of every source, one line each, as a Markdown table.
std::string source_table(const std::vector<RowForecast>& rows);

}  // namespace tracecast
