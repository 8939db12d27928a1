#include "sim/reliability/closed_forms.hpp"

#include <cmath>

#include <boost/math/special_functions/lambert_w.hpp>

namespace tracecast {

double segment_time_s(double work_s, const CheckpointRegime& regime) {
  const double mu = regime.mtbf_s;
  const double attempts = std::expm1((work_s + regime.checkpoint_s) / mu);
  return regime.failures_in_restart ? mu * std::exp(regime.restart_s / mu) * attempts
                                    : (mu + regime.restart_s) * attempts;
}

double segment_goodput(double work_s, const CheckpointRegime& regime) {
  return work_s / segment_time_s(work_s, regime);
}

double young_interval_s(double checkpoint_s, double mtbf_s) { return std::sqrt(2 * checkpoint_s * mtbf_s); }

double daly_interval_s(double checkpoint_s, double mtbf_s) {
  const double x = checkpoint_s / (2 * mtbf_s);
  if (x >= 1) return mtbf_s;
  return young_interval_s(checkpoint_s, mtbf_s) * (1 + std::sqrt(x) / 3 + x / 9) - checkpoint_s;
}

double optimal_interval_s(double checkpoint_s, double mtbf_s) {
  return mtbf_s * (1 + boost::math::lambert_w0(-std::exp(-checkpoint_s / mtbf_s - 1)));
}

}  // namespace tracecast
