#include "sim/base/binomial.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/result.hpp"

namespace tracecast {

double at_most(int hits, int trials, double share) {
  TRACECAST_ASSERT(0 <= hits && hits <= trials && share > 0 && share < 1, "hits are among trials");
  double sum = 0;
  for (int k = 0; k <= hits; ++k)
    sum += std::exp(std::lgamma(trials + 1) - std::lgamma(k + 1) - std::lgamma(trials - k + 1) + k * std::log(share) +
                    (trials - k) * std::log1p(-share));
  return std::min(1.0, sum);
}

}  // namespace tracecast
