#include "sim/cost/power_limit.hpp"

#include <cmath>

#include "sim/base/result.hpp"

namespace tracecast {

double clock_at_power(double limit) {
  TRACECAST_ASSERT(limit >= kLeastPowerLimit && limit <= 1, "a share of the rated power that a GPU can run at");
  return std::cbrt((limit - kStaticPower) / (1 - kStaticPower));
}

double limit_in_rack(const RackPower& rack) {
  return (rack.watts / rack.hosts - rack.host_watts) / (rack.gpus_per_host * rack.gpu_watts);
}

double watts_for(const RackPower& rack, double limit) {
  return rack.hosts * (rack.host_watts + limit * rack.gpus_per_host * rack.gpu_watts);
}

double power_loss(double knee, double exponent, double flops) {
  return knee <= 0 || flops <= knee ? 1 : std::pow(flops / knee, -exponent);
}

}  // namespace tracecast
