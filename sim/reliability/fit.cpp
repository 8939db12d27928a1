#include "sim/reliability/fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/digamma.hpp>

namespace tracecast {
namespace {

double chi_squared_quantile(double degrees, double p) { return quantile(boost::math::chi_squared(degrees), p); }

/// Sums over lifetimes in units of the largest, so that powers stay finite.
struct Scaled {
  explicit Scaled(const Lifetimes& lifetimes) {
    for (const double t : lifetimes.failed_s) unit = std::max(unit, t);
    for (const Censored& part : lifetimes.censored) unit = std::max(unit, part.age_s);
    for (const double t : lifetimes.failed_s) {
      lives.push_back({std::log(t / unit), 1});
      sum_failed += lives.back().log;
    }
    failures = static_cast<double>(lives.size());
    for (const Censored& part : lifetimes.censored)
      if (part.age_s > 0) lives.push_back({std::log(part.age_s / unit), static_cast<double>(part.count)});
  }

  /// Sums of t^k (ln t)^power over all lifetimes.
  double sum(double k, int power) const {
    double total = 0;
    for (const auto& [x, parts] : lives) total += parts * std::exp(k * x) * (power == 0 ? 1 : power == 1 ? x : x * x);
    return total;
  }

  struct Life {
    double log = 0;
    double parts = 1;  ///< that had it
  };

  double unit = 0;
  std::vector<Life> lives;  ///< failed first
  double failures = 0;
  double sum_failed = 0;
};

/// The profile score of the shape, falling in k: zero at the maximum.
double score(const Scaled& s, double k) { return 1 / k + s.sum_failed / s.failures - s.sum(k, 1) / s.sum(k, 0); }

double best_shape(const Scaled& s) {
  double low = 1e-3, high = 1;
  while (score(s, high) > 0 && high < 1e4) high *= 2;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (score(s, middle) > 0 ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

/// Log likelihood with the best scale for shape k.
double log_likelihood(const Scaled& s, double k) {
  const double log_scale = std::log(s.sum(k, 0) / s.failures) / k;
  return s.failures * (std::log(k) - k * log_scale - 1) + (k - 1) * s.sum_failed - s.failures * std::log(s.unit);
}

IntervalEstimate around(double log_value, double error, double z) {
  return {std::exp(log_value), std::exp(log_value - z * error), std::exp(log_value + z * error)};
}

}  // namespace

IntervalEstimate exponential_mean_s(int failures, double exposure_s, double confidence) {
  TRACECAST_ASSERT(exposure_s > 0 && failures >= 0, "failures are observed for some time");
  const double tail = (1 - confidence) / 2;
  const double low = 2 * exposure_s / chi_squared_quantile(2.0 * failures + 2, 1 - tail);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (failures == 0) return {kInfinity, low, kInfinity};
  return {exposure_s / failures, low, 2 * exposure_s / chi_squared_quantile(2.0 * failures, tail)};
}

Result<WeibullFit> fit_weibull(const Lifetimes& lifetimes, double confidence) {
  if (lifetimes.failed_s.size() < 3) return fail("a Weibull law needs at least three failures");
  const auto [least, most] = std::minmax_element(lifetimes.failed_s.begin(), lifetimes.failed_s.end());
  if (*least <= 0) return fail("a lifetime is not positive");
  if (*least == *most) return fail("all failures have one age: no law can be fitted");
  const Scaled s(lifetimes);
  const double k = best_shape(s);
  const double a = std::log(s.sum(k, 0) / s.failures) / k;  // log scale, in units

  // Observed information of (a, b = ln k), with z = (t / scale)^k: sums of z (ln t - a)^power.
  const double weight = std::exp(-k * a);
  const double z0 = weight * s.sum(k, 0);
  const double z1 = weight * (s.sum(k, 1) - a * s.sum(k, 0));
  const double z2 = weight * (s.sum(k, 2) - 2 * a * s.sum(k, 1) + a * a * s.sum(k, 0));
  const double aa = k * k * z0;
  const double bb = s.failures + k * k * z2;
  const double ab = k * (s.failures - z0 - k * z1);
  const double determinant = aa * bb - ab * ab;
  const double var_a = bb / determinant, var_b = aa / determinant, covariance = -ab / determinant;

  // ln mean = a + ln Gamma(1 + 1/k).
  const double slope = -boost::math::digamma(1 + 1 / k) / k;
  const double var_mean = var_a + slope * slope * var_b + 2 * slope * covariance;
  const double z = quantile(boost::math::normal(), 0.5 + confidence / 2);

  WeibullFit fit;
  fit.shape = around(std::log(k), std::sqrt(var_b), z);
  fit.mean_s = around(a + std::lgamma(1 + 1 / k) + std::log(s.unit), std::sqrt(var_mean), z);
  fit.log_likelihood = log_likelihood(s, k);
  const double ratio = std::max(0.0, 2 * (fit.log_likelihood - log_likelihood(s, 1)));
  fit.p_value = cdf(complement(boost::math::chi_squared(1), ratio));
  return fit;
}

}  // namespace tracecast
