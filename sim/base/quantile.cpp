#include "sim/base/quantile.hpp"

#include <algorithm>
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

}  // namespace tracecast
