#include "tools/accuracy/own_runs.hpp"

#include <algorithm>
#include <cmath>

#include "sim/forecast/evidence.hpp"
#include "tools/accuracy/decisions.hpp"

namespace tracecast::accuracy {
namespace {

constexpr const char* kLevers[] = {"recompute", "framework", "compiled", "schedule", "zero_stage"};
/// Runs that correlate less say almost nothing.
constexpr double kLeastCorrelation = 0.05;
/// The most similar runs are enough, and keep the system of equations small.
constexpr std::size_t kMostRuns = 40;

using Matrix = std::vector<std::vector<double>>;

/// Solves a x = b by Cholesky's decomposition. Requires a symmetric positive definite a.
std::vector<double> solved(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t i = j; i < n; ++i) {
      double sum = a[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i][k] * a[j][k];
      a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
    }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k][i] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

double error_correlation(const CsvTable& table, const RowForecast& a, const RowForecast& b) {
  for (const char* column : {"gpu", "gpu_mem_gb", "arch"})
    if (table.text(a.row, column) != table.text(b.row, column)) return 0;
  const auto differs = [&](const char* column) { return table.text(a.row, column) != table.text(b.row, column); };
  double correlation = 0.9;
  if (differs("precision") || differs("precision_detail")) correlation *= 0.85;
  for (const char* lever : kLevers)
    if (differs(lever)) correlation *= 0.45;
  return correlation * std::exp(-std::pow(layout_distance(table, a, b) / 2.2, 2));
}

OwnFit own_fit(const CsvTable& table, const RowForecast& row, const std::vector<const RowForecast*>& known) {
  std::vector<std::pair<double, const RowForecast*>> similar;
  for (const RowForecast* other : known)
    if (const double own = other == &row ? 0 : error_correlation(table, row, *other); own >= kLeastCorrelation)
      similar.emplace_back(own, other);
  std::ranges::stable_sort(similar, [](const auto& a, const auto& b) { return a.first > b.first; });
  similar.resize(std::min(similar.size(), kMostRuns));
  Matrix among(similar.size(), std::vector<double>(similar.size(), 1.0));
  std::vector<double> with_row;
  for (std::size_t i = 0; i < similar.size(); ++i) {
    with_row.push_back(similar[i].first);
    for (std::size_t j = 0; j < i; ++j)
      among[i][j] = among[j][i] = error_correlation(table, *similar[i].second, *similar[j].second);
  }
  const std::vector<double> weights = solved(std::move(among), with_row);
  OwnFit fit;
  fit.runs = static_cast<int>(similar.size());
  double logarithm = 0;
  for (std::size_t i = 0; i < similar.size(); ++i) {
    logarithm += weights[i] * std::log(similar[i].second->measured_s / similar[i].second->predicted_s);
    fit.explained += weights[i] * with_row[i];
  }
  fit.factor = std::exp(logarithm);
  const double sigma = deviation_of(row.band.p5_s, row.band.p95_s);
  const double margin = std::exp(kNinetyPercent * sigma * std::sqrt(std::max(0.0, 1 - fit.explained)));
  fit.low_s = row.predicted_s * fit.factor / margin;
  fit.high_s = row.predicted_s * fit.factor * margin;
  return fit;
}

std::string levers_text(const CsvTable& table, const RowForecast& row) {
  std::string text = table.text(row.row, "precision");
  const auto add = [&](const std::string& value, const std::string& before, const std::string& after) {
    if (!value.empty()) text += (text.empty() ? "" : ", ") + before + value + after;
  };
  add(table.text(row.row, "recompute"), "", " recomputation");
  add(table.text(row.row, "framework"), "", "");
  add(table.text(row.row, "schedule"), "", "");
  add(table.text(row.row, "zero_stage"), "ZeRO ", "");
  return text;
}

}  // namespace tracecast::accuracy
