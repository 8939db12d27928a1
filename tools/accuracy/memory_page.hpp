/// \file
/// The page of `tracecast validate --memory`: forecast peak memory beside reported peaks, and which runs fit.
#pragma once

#include <string>
#include <vector>

#include "sim/io/csv_table.hpp"
#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

/// Markdown: errors per source, every run with a reported peak, completed runs that are forecast not to fit, and runs
/// that ended out of memory. Skipped rows are left out.
std::string memory_page(const CsvTable& table, const std::vector<RowForecast>& rows);

}  // namespace tracecast::accuracy
