#include "sim/cost/host_update.hpp"

namespace tracecast {

Duration host_update(std::int64_t parameters, int ranks) {
  constexpr double kParametersPerSecond = 3.9e9;
  return from_seconds(static_cast<double>(parameters) * ranks / kParametersPerSecond);
}

}  // namespace tracecast
