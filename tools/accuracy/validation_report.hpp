/// \file
/// Output of `tracecast validate` for a table of runs: a page, one JSON object, a picture and a web page.
#pragma once

#include <string>
#include <vector>

#include "sim/io/csv_table.hpp"
#include "sim/report/page_metadata.hpp"
#include "sim/report/text.hpp"
#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

/// For a terminal: every row with forecast, measurement, error and 90 % interval; a summary, also by groups of `by`
/// (a column, "architecture" or "stack"; "" none); memory; assumptions and skipped rows.
std::string validation_page(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by,
                            const TextStyle& style);

/// One JSON object, newline at the end: docs/formats/validation.md, docs/schema/validation.schema.json.
std::string validation_json(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by);

/// Forecast against measured step times, a colour per source, with lines of 0 and +-10 %.
std::string scatter_svg(const std::vector<RowForecast>& rows);
/// A web page: the picture, sorted signed errors, groups and every run.
std::string validation_html(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by,
                            const PageMetadata& metadata);

}  // namespace tracecast::accuracy
