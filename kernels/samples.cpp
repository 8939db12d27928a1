#include "kernels/samples.hpp"

#include "sim/base/quantile.hpp"

namespace tracecast {

Samples summarise(const std::vector<double>& values) {
  constexpr double kQuartiles = 1.349;  // distance of the quartiles of a normal distribution, in standard deviations
  const double middle = median(values);
  const double lower = quantile(values, 0.25);
  const double distance = quantile(values, 0.75) - lower;
  return {lower, middle, middle > 0 ? distance / kQuartiles / middle : 0, static_cast<int>(values.size())};
}

}  // namespace tracecast
