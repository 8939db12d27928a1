#include "tools/accuracy/own_runs.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/forecast/evidence.hpp"
#include "tools/accuracy/linear_system.hpp"

namespace tracecast::accuracy {
namespace {

/// In doublings (own_runs.hpp).
constexpr double kCorrelationLength = 1.4;
/// Runs that correlate less say almost nothing.
constexpr double kLeastCorrelation = 0.05;
/// The most similar runs are enough, and keep the system of equations small.
constexpr std::size_t kMostRuns = 40;

}  // namespace

double error_correlation(const RunTraits& a, const RunTraits& b) {
  if (a.gpu != b.gpu || a.experts != b.experts) return 0;
  double correlation = 0.9;
  if (a.precision != b.precision) correlation *= 0.85;
  for (std::size_t i = 0; i < a.levers.size(); ++i)
    if (a.levers[i] != b.levers[i]) correlation *= 0.45;
  return correlation * std::exp(-std::pow(layout_distance(a, b) / kCorrelationLength, 2));
}

std::string why_left_out(const RowForecast& row) {
  if (!row.forecast_made()) return row.skipped;
  if (row.out_of_memory) return "ended out of memory";
  if (row.measured_s <= 0) return "";
  const std::string far = far_off(row.measured_s, row.predicted_s);
  return far.empty() ? "" : fmt::format("step_time_s = {:.4g}: {}", row.measured_s, far);
}

OwnFit own_fit(const RowForecast& row, const std::vector<const RowForecast*>& known) {
  std::vector<std::pair<double, const RowForecast*>> similar;
  for (const RowForecast* other : known)
    if (const double own = error_correlation(row.traits, other->traits); own >= kLeastCorrelation)
      similar.emplace_back(own, other);
  std::ranges::stable_sort(similar, [](const auto& a, const auto& b) { return a.first > b.first; });
  similar.resize(std::min(similar.size(), kMostRuns));
  Matrix among(similar.size(), std::vector<double>(similar.size(), 1.0));
  std::vector<double> with_row;
  for (std::size_t i = 0; i < similar.size(); ++i) {
    with_row.push_back(similar[i].first);
    for (std::size_t j = 0; j < i; ++j)
      among[i][j] = among[j][i] = error_correlation(similar[i].second->traits, similar[j].second->traits);
  }
  const std::vector<double> weights = solve_positive_definite(std::move(among), with_row);
  OwnFit fit;
  fit.runs = static_cast<int>(similar.size());
  double logarithm = 0;
  for (std::size_t i = 0; i < similar.size(); ++i) {
    logarithm += weights[i] * std::log(similar[i].second->measured_s / similar[i].second->predicted_s);
    fit.explained += weights[i] * with_row[i];
  }
  fit.factor = std::exp(logarithm);
  const double sigma = deviation_of(row.band.p5_s, row.band.p95_s);
  const double margin = std::exp(kNinetyPercent * sigma * std::sqrt(1 - fit.explained));
  fit.low_s = row.predicted_s * fit.factor / margin;
  fit.high_s = row.predicted_s * fit.factor * margin;
  return fit;
}

}  // namespace tracecast::accuracy
