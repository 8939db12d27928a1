/// \file
/// What `tracecast validate` prints: a table, one JSON object, pictures, and pages for docs/validation.
#pragma once

#include <string>
#include <vector>

#include "sim/report/page_facts.hpp"
#include "sim/report/text.hpp"
#include "tools/accuracy/measured_tables.hpp"
#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

/// Every row with forecast, measurement, error and band; summary; groups by `by` (a column, "architecture" or "stack";
/// "" none); memory; what was assumed and what was skipped.
std::string validation_page(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by,
                            const TextStyle& style);

/// One JSON object, newline at the end: docs/formats/validation.md, docs/schema/validation.schema.json.
std::string validation_json(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by);

/// Forecast against measurement, a colour per source, with lines of 0 and +-10 %.
std::string scatter_svg(const std::vector<RowForecast>& rows);
/// The same as a web page, with the signed errors sorted, groups and every run.
std::string validation_html(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by,
                            const PageFacts& facts);

/// Errors of measured operators or collectives by group, for a terminal.
std::string samples_page(const std::vector<MeasuredSample>& samples, bool collectives, const TextStyle& style);
/// The same as a Markdown table, for docs/validation.
std::string samples_markdown(const std::vector<MeasuredSample>& samples, bool collectives);
/// One JSON object; `files` by MeasuredSample::table.
std::string samples_json(const std::vector<std::string>& files, const std::vector<MeasuredSample>& samples);

}  // namespace tracecast::accuracy
