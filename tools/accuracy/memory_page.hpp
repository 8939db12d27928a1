/// \file
/// docs/validation/memory.md: forecast peak memory beside what published runs print, and who fits.
#pragma once

#include <string>
#include <vector>

#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

/// Markdown: errors per source, every run with a printed peak, completed runs that are told not to fit, and runs that ended
/// out of memory. Rows that were skipped are left out.
std::string memory_page(const CsvTable& table, const std::vector<RowForecast>& rows);

}  // namespace tracecast::accuracy
