/// \file
/// Output of `tracecast validate` for tables of operators and collectives: a page, a Markdown table and one JSON object.
#pragma once

#include <string>
#include <vector>

#include "sim/report/text.hpp"
#include "tools/accuracy/measured_tables.hpp"

namespace tracecast::accuracy {

/// Errors of measured operators or collectives by group, for a terminal.
std::string samples_page(const std::vector<MeasuredSample>& samples, bool collectives, const TextStyle& style);
/// The same as a Markdown table, for docs/validation.
std::string samples_markdown(const std::vector<MeasuredSample>& samples, bool collectives);
/// One JSON object; `files` by MeasuredSample::table.
std::string samples_json(const std::vector<std::string>& files, const std::vector<MeasuredSample>& samples);

}  // namespace tracecast::accuracy
