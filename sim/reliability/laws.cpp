#include "sim/reliability/laws.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <boost/math/special_functions/gamma.hpp>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
}

double weibull_scale_s(const Law& law) { return law.mean_s / std::tgamma(1 + 1 / law.shape); }

double draw_s(const Law& law, RandomStream& random) {
  switch (law.kind) {
    case LawKind::exponential:
      return law.mean_s * random.exponential();
    case LawKind::weibull:
      return weibull_scale_s(law) * std::pow(random.exponential(), 1 / law.shape);
    case LawKind::fixed:
      return law.mean_s;
  }
  return 0;
}

double survival(const Law& law, JobTime least) {
  if (least <= JobTime{}) return 1;
  switch (law.kind) {
    case LawKind::exponential:
      return std::exp(-seconds(least) / law.mean_s);
    case LawKind::weibull:
      return std::exp(-std::pow(seconds(least) / weibull_scale_s(law), law.shape));
    case LawKind::fixed:
      return job_time(law.mean_s) >= least ? 1 : 0;
  }
  return 0;
}

FleetFailures::FleetFailures(const Law& law, std::int64_t parts, FleetAge age, RandomStream random)
    : law_(law), age_(age), random_(random), original_(parts) {
  TRACECAST_ASSERT(parts >= 0 && law.mean_s > 0, "a fleet has parts that fail after some time");
  if (law_.kind == LawKind::weibull) scale_s_ = weibull_scale_s(law_);
  advance_original();
  choose();
}

/// The time at which an original part has reached this cumulative hazard.
double FleetFailures::first_failure_s(double cumulative_hazard) const {
  if (age_ == FleetAge::fresh) return scale_s_ * std::pow(cumulative_hazard, 1 / law_.shape);
  // Survival of the residual life of a renewal process in equilibrium: Q(1/k, (t/eta)^k).
  const double x = boost::math::gamma_q_inv(1 / law_.shape, std::exp(-cumulative_hazard));
  return scale_s_ * std::pow(x, 1 / law_.shape);
}

/// The next failure among the original parts. An exponential part does not age, so its replacement stays one of them.
/// Parts with equal fixed lifetimes fail one after the other.
void FleetFailures::advance_original() {
  if (original_ == 0) {
    original_next_s_ = kInfinity;
    return;
  }
  const auto left = static_cast<double>(original_);
  switch (law_.kind) {
    case LawKind::exponential:
      original_next_s_ += law_.mean_s / left * random_.exponential();
      return;
    case LawKind::weibull:
      cumulative_hazard_ += random_.exponential() / left;
      original_next_s_ = first_failure_s(cumulative_hazard_);
      return;
    case LawKind::fixed:
      original_next_s_ = age_ == FleetAge::fresh ? law_.mean_s : original_next_s_ + law_.mean_s / left;
      return;
  }
}

void FleetFailures::choose() {
  next_s_ = replaced_.empty() ? original_next_s_ : std::min(original_next_s_, replaced_.front());
}

void FleetFailures::pop() {
  const double now = next_s_;
  if (now == original_next_s_) {
    const bool memoryless =
        law_.kind == LawKind::exponential || (law_.kind == LawKind::fixed && age_ == FleetAge::stationary);
    if (!memoryless) --original_;
    advance_original();
    if (memoryless) return choose();
  } else {
    std::pop_heap(replaced_.begin(), replaced_.end(), std::greater<>());
    replaced_.pop_back();
  }
  replaced_.push_back(now + draw_s(law_, random_));
  std::push_heap(replaced_.begin(), replaced_.end(), std::greater<>());
  choose();
}

}  // namespace tracecast
