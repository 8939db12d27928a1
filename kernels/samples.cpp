#include "kernels/samples.hpp"

#include "sim/base/quantile.hpp"

namespace tracecast {

Samples summarise(const std::vector<double>& values) {
  return {quantile(values, 0.25), median(values), relative_spread(values), static_cast<int>(values.size())};
}

}  // namespace tracecast
