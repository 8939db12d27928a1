#include "sim/cost/power_limit.hpp"

#include <cmath>

#include "sim/base/result.hpp"

namespace tracecast {

double clock_at_power(double limit) {
  TRACECAST_ASSERT(limit >= kLeastPowerLimit && limit <= 1, "a share of the rated power that a GPU can run at");
  return std::cbrt((limit - kStaticPower) / (1 - kStaticPower));
}

}  // namespace tracecast
