#include "kernels/samples.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Samples summarise(std::vector<double> values) {
  TRACECAST_ASSERT(!values.empty(), "there is something to summarise");
  std::sort(values.begin(), values.end());
  constexpr double kQuartiles = 1.349;  // distance of the quartiles of a normal distribution, in standard deviations
  const double median = quantile(values, 0.5);
  const double distance = quantile(values, 0.75) - quantile(values, 0.25);
  return {quantile(values, 0.25), median, median > 0 ? distance / kQuartiles / median : 0,
          static_cast<int>(values.size())};
}

}  // namespace tracecast
