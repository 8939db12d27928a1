#include "sim/forecast/job_length.hpp"

#include "sim/base/units.hpp"

namespace tracecast {

double counted_tokens_per_s(const Forecast& forecast, const Training& training) {
  return forecast.tokens_per_s * counted_share(forecast, training);
}

double days_without_interruptions(const Forecast& forecast, const Training& training) {
  return tokens_to_train(training) / counted_tokens_per_s(forecast, training) / kSecondsPerDay;
}

}  // namespace tracecast
