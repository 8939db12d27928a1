#include "sim/reliability/closed_forms.hpp"

#include <cmath>
#include <numbers>

#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/lambert_w.hpp>

#include "sim/base/result.hpp"

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

double first_order_goodput(double work_s, const CheckpointRegime& regime) {
  return first_order_async_goodput(work_s, 0, regime);
}

double first_order_async_goodput(double work_s, double persist_s, const CheckpointRegime& regime) {
  return 1 - regime.checkpoint_s / work_s - (work_s / 2 + persist_s + regime.restart_s) / regime.mtbf_s;
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

double mean_time_to_failure_s(double parts, double rate_per_part_s) { return 1 / (parts * rate_per_part_s); }

double expected_in_repair(double nodes, double rate_per_node_s, double repair_s) {
  return nodes * rate_per_node_s * repair_s;
}

double shortage_poisson(double mean_in_repair, int spares) {
  TRACECAST_ASSERT(spares >= 0, "spares are counted");
  if (mean_in_repair <= 0) return 0;
  return boost::math::gamma_p(spares + 1.0, mean_in_repair);
}

double shortage_binomial(int nodes, double rate_per_node_s, double repair_s, int spares) {
  TRACECAST_ASSERT(spares >= 0, "spares are counted");
  if (spares >= nodes) return 0;
  const double load = rate_per_node_s * repair_s;
  return boost::math::ibeta(spares + 1.0, nodes - spares, load / (1 + load));
}

double waiting_share(double mean_in_repair, int spares) {
  TRACECAST_ASSERT(spares >= 0, "spares are counted");
  double loss = 1;  // Erlang B by its recursion over the number of servers
  for (int servers = 1; servers <= spares + 1; ++servers)
    loss = mean_in_repair * loss / (servers + mean_in_repair * loss);
  return loss;
}

double elastic_throughput(double replicas, double mean_replicas_down, double failure_rate_s, double reconfigure_s) {
  return 1 - mean_replicas_down / replicas - failure_rate_s * reconfigure_s;
}

double expected_maximum_of_normals(std::int64_t n) {
  TRACECAST_ASSERT(n >= 1, "the largest of at least one");
  // E max = int_0^inf (1 - F^n) dx - int_-inf^0 F^n dx, by Simpson's rule; beyond 12 the integrands are below
  // 1e-30 n.
  const double count = static_cast<double>(n);
  const auto integrand = [count](double x) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);  // F(x)
    const double above = 0.5 * std::erfc(x / std::numbers::sqrt2);   // 1 - F(x), without cancellation
    const double none_below = std::pow(0.5 * std::erfc(x / std::numbers::sqrt2), count);  // F(-x)^n
    const double log_below = x > 0 ? std::log1p(-above) : std::log(below);
    return -std::expm1(count * log_below) - none_below;
  };
  constexpr int kIntervals = 4800;
  constexpr double kWidth = 12.0 / kIntervals;
  double sum = integrand(0) + integrand(12);
  for (int i = 1; i < kIntervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * integrand(i * kWidth);
  return sum * kWidth / 3;
}

}  // namespace tracecast
