#include "tools/accuracy/memory_page.hpp"

#include <set>

#include <fmt/format.h>

#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/percent.hpp"

namespace tracecast::accuracy {
namespace {

bool reports_peak(const RowForecast& row) {
  return row.forecast_made() && !row.out_of_memory && row.measured_memory_gib > 0;
}

/// The layout of a row, in the words of the table.
std::string layout(const CsvTable& table, std::size_t row) {
  std::string text;
  for (const char* column : {"tp", "pp", "dp", "cp", "ep"})
    if (const std::string& degree = table.text(row, column); !degree.empty() && degree != "1")
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", column, degree);
  for (const char* column : {"schedule", "micro_batch", "precision"})
    if (const std::string& value = table.text(row, column); !value.empty() && value != "none")
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", column == std::string("micro_batch") ? "b" : "", value);
  return text;
}

std::string described(const CsvTable& table, const RowForecast& row) {
  return fmt::format("{}: {} on {} {}, {}", row.id, table.text(row.row, "model_name"), table.text(row.row, "gpu_count"),
                     table.text(row.row, "gpu"), layout(table, row.row));
}

std::string sources_table(const std::vector<RowForecast>& rows) {
  std::string text = "| source | rows | mean error | bias | worst |\n| --- | ---: | ---: | ---: | ---: |\n";
  std::set<std::string> sources{""};
  for (const RowForecast& row : rows)
    if (reports_peak(row)) sources.insert(row.source);
  for (const std::string& source : sources) {
    const MemorySummary m = summarise_memory(rows, source);
    text += fmt::format("| {} | {} | {:.1f} | {} | {:.1f} |\n", source.empty() ? "all" : source, m.rows, 100 * m.mean,
                        signed_percent_number(m.bias), 100 * m.worst);
  }
  return text;
}

std::string peaks_table(const CsvTable& table, const std::vector<RowForecast>& rows) {
  std::string text = "| run | forecast, GiB | reported, GiB | error, % |\n| --- | ---: | ---: | ---: |\n";
  for (const RowForecast& row : rows)
    if (reports_peak(row))
      text += fmt::format("| {} | {:.1f} | {:.1f} | {} |\n", described(table, row), row.comparable_memory_gib,
                          row.measured_memory_gib, signed_percent_number(row.memory_error()));
  return text;
}

/// Runs that ended out of memory, or those that completed and are forecast not to fit.
std::string limits_table(const CsvTable& table, const std::vector<RowForecast>& rows, bool out_of_memory) {
  std::string text = "| run | forecast, GiB | GPU, GiB |\n| --- | ---: | ---: |\n";
  for (const RowForecast& row : rows)
    if (row.forecast_made() && row.out_of_memory == out_of_memory && (out_of_memory || !row.fits))
      text +=
          fmt::format("| {} | {:.1f} | {:.1f} |\n", described(table, row), row.predicted_memory_gib, row.capacity_gib);
  return text;
}

}  // namespace

std::string memory_page(const CsvTable& table, const std::vector<RowForecast>& rows) {
  const MemorySummary m = summarise_memory(rows);
  return fmt::format(
      "## Errors\n\nPercent of the reported peak; the mean is that of absolute errors.\n\n{}\n"
      "{} of {} completed runs are forecast to fit, {} of {} that ran out of memory are forecast not to.\n\n"
      "## Completed, but forecast not to fit\n\n{}\n## Ran out of memory\n\n{}\n## Every run that reports a peak\n\n{}",
      sources_table(rows), m.completed_fit, m.completed, m.out_of_memory_seen, m.out_of_memory,
      limits_table(table, rows, false), limits_table(table, rows, true), peaks_table(table, rows));
}

}  // namespace tracecast::accuracy
