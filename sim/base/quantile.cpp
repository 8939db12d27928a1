#include "sim/base/quantile.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/result.hpp"

namespace tracecast {

double quantile(std::vector<double> values, double share) {
  TRACECAST_ASSERT(!values.empty(), "a quantile of something");
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= values.size()) return values.back();
  return values[below] + (at - static_cast<double>(below)) * (values[below + 1] - values[below]);
}

double median(std::vector<double> values) { return values.empty() ? 0 : quantile(std::move(values), 0.5); }

double relative_spread(const std::vector<double>& values) {
  constexpr double kQuartiles = 1.349;  // distance of the quartiles of a normal distribution, in standard deviations
  const double middle = median(values);
  return middle > 0 ? (quantile(values, 0.75) - quantile(values, 0.25)) / kQuartiles / middle : 0;
}

double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double each : values) squares += (each - mean) * (each - mean);
  return std::sqrt(squares / (count - 1));
}

}  // namespace tracecast
