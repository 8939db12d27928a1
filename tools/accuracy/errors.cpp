#include "tools/accuracy/errors.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/quantile.hpp"

namespace tracecast::accuracy {

ErrorSummary summarise(const std::vector<const RowForecast*>& rows) {
  ErrorSummary s;
  s.rows = static_cast<int>(rows.size());
  if (rows.empty()) return s;
  std::vector<double> absolute, own, widths;
  for (const RowForecast* row : rows) {
    absolute.push_back(std::abs(row->error()));
    own.push_back(row->error());
    widths.push_back((row->band.p95_s - row->band.p5_s) / 2 / row->band.p50_s);
    s.mean += absolute.back() / s.rows;
    s.within_10 += (absolute.back() <= 0.1 ? 1.0 : 0.0) / s.rows;
    s.coverage += (row->inside_band() ? 1.0 : 0.0) / s.rows;
  }
  s.worst = *std::max_element(absolute.begin(), absolute.end());
  s.median = median(absolute);
  s.bias = median(own);
  s.half_width = median(widths);
  return s;
}

Measure measure(const std::vector<const RowForecast*>& rows) {
  std::map<std::string, std::vector<double>> by_source;
  for (const RowForecast* row : rows) by_source[row->source].push_back(row->error());
  constexpr std::size_t kMinRows = 3;  // sources with fewer are pooled
  std::vector<double> pool;
  Measure m;
  std::vector<double> scatters;  // [source with at least kMinRows]
  const auto add = [&m](const std::vector<double>& errors) {
    std::vector<double> absolute;
    for (const double e : errors) absolute.push_back(std::abs(e));
    m.mean_of_medians += median(absolute);
    ++m.sources;
  };
  for (const auto& [source, errors] : by_source) {
    if (errors.size() < kMinRows) {
      pool.insert(pool.end(), errors.begin(), errors.end());
      continue;
    }
    add(errors);
    const double middle = median(errors);
    std::vector<double> away;
    for (const double e : errors) away.push_back(std::abs((1 + e) / (1 + middle) - 1));
    scatters.push_back(median(away));
  }
  if (!pool.empty()) add(pool);
  if (m.sources > 0) m.mean_of_medians /= m.sources;
  if (!scatters.empty())
    m.scatter = std::accumulate(scatters.begin(), scatters.end(), 0.0) / static_cast<double>(scatters.size());
  return m;
}

std::vector<const RowForecast*> scored(const std::vector<RowForecast>& rows) {
  std::vector<const RowForecast*> out;
  for (const RowForecast& row : rows)
    if (row.scored()) out.push_back(&row);
  return out;
}

std::map<std::string, std::vector<const RowForecast*>> grouped(const CsvTable& table,
                                                               const std::vector<RowForecast>& rows,
                                                               const std::string& column) {
  std::map<std::string, std::vector<const RowForecast*>> groups;
  for (const RowForecast* row : scored(rows)) {
    const std::string& name = column == "architecture" ? row->architecture
                              : column == "stack"      ? row->stack
                                                       : table.text(row->row, column);
    groups[name.empty() ? "not reported" : name].push_back(row);
  }
  return groups;
}

MemorySummary summarise_memory(const std::vector<RowForecast>& rows, const std::string& source) {
  MemorySummary m;
  for (const RowForecast& row : rows) {
    if (!row.forecast_made() || (!source.empty() && row.source != source)) continue;
    if (row.out_of_memory) {
      ++m.out_of_memory;
      m.out_of_memory_seen += row.fits ? 0 : 1;
      continue;
    }
    ++m.completed;
    m.completed_fit += row.fits ? 1 : 0;
    if (row.measured_memory_gib <= 0) continue;
    const double error = row.memory_error();
    ++m.rows;
    m.mean += std::abs(error);
    m.worst = std::max(m.worst, std::abs(error));
    m.bias += error;
  }
  if (m.rows > 0) {
    m.mean /= m.rows;
    m.bias /= m.rows;
  }
  return m;
}

}  // namespace tracecast::accuracy
