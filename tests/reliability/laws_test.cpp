#include "sim/reliability/laws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

std::vector<double> failures_until(FleetFailures fleet, double end_s) {
  std::vector<double> times;
  for (; fleet.next_s() < end_s; fleet.pop()) times.push_back(fleet.next_s());
  return times;
}

/// The same process the long way: every part drawn by itself.
std::vector<double> part_by_part(const Law& law, int parts, double end_s, RandomStream random) {
  std::vector<double> times;
  for (int part = 0; part < parts; ++part)
    for (double t = draw_s(law, random); t < end_s; t += draw_s(law, random)) times.push_back(t);
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

TEST_CASE("weibull: scale from mean", "[oracle][reliability]") {
  // docs/references.md#failure-laws: Gamma(1 + 1/0.7) = 1.26582.
  CHECK(weibull_scale_s({LawKind::weibull, 1.26582, 0.7}) == Approx(1).epsilon(1e-5));
  CHECK(weibull_scale_s({LawKind::weibull, 5, 1}) == Approx(5));
}

TEST_CASE("draws have the mean and variance of their law", "[property][reliability]") {
  const double shape = GENERATE(0.7, 1.0, 2.5);
  const Law law{LawKind::weibull, 100, shape};
  RandomStream random(1, 0, 0);
  const int n = 40'000;
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += draw_s(law, random);
  const double scale = weibull_scale_s(law);
  const double variance = scale * scale * std::tgamma(1 + 2 / shape) - 100.0 * 100.0;
  CHECK(sum / n == Approx(100).margin(3 * std::sqrt(variance / n)));
  CHECK(draw_s({LawKind::fixed, 7, 1}, random) == 7);
}

TEST_CASE("survival is the share of draws that last as long", "[property][reliability]") {
  const double shape = GENERATE(0.7, 1.0, 2.5);
  const JobTime minute = job_time(60.0);
  const Law law = shape == 1 ? Law{LawKind::exponential, 100, 1} : Law{LawKind::weibull, 100, shape};
  RandomStream random(1, 0, 0);
  const int n = 40'000;
  int lasting = 0;
  for (int i = 0; i < n; ++i) lasting += draw_s(law, random) >= 60 ? 1 : 0;
  const double p = survival(law, minute);
  CHECK(lasting / double{n} == Approx(p).margin(3 * std::sqrt(p * (1 - p) / n)));
  CHECK(survival(law, {}) == 1);
  CHECK(survival({law.kind, 0, shape}, minute) == 0);
  CHECK(survival({LawKind::fixed, 60, 1}, minute) == 1);
  CHECK(survival({LawKind::fixed, 59, 1}, minute) == 0);
}

TEST_CASE("a fleet of exponential parts is a Poisson process", "[oracle][reliability]") {
  const Law law{LawKind::exponential, 1000, 1};
  int count = 0;
  const int histories = 200;
  for (std::uint32_t h = 0; h < histories; ++h)
    count += static_cast<int>(failures_until({law, 50, FleetAge::fresh, RandomStream(3, h, 0)}, 2000).size());
  // 50 parts x 2000 s / 1000 s = 100 expected; the variance of a Poisson number is its mean.
  CHECK(count / double{histories} == Approx(100).margin(3 * std::sqrt(100.0 / histories)));
}

TEST_CASE("fleet failures by order statistics match failures drawn per part", "[differential][reliability]") {
  const double shape = GENERATE(0.6, 1.7);
  const Law law{LawKind::weibull, 1000, shape};
  const int parts = 30;
  const int histories = 600;
  // Failures up to each of three times, with renewals in between; both ways have the same mean.
  for (const double end_s : {100.0, 700.0, 2500.0}) {
    double fast = 0, fast2 = 0, slow = 0, slow2 = 0;
    for (std::uint32_t h = 0; h < histories; ++h) {
      const auto a =
          static_cast<double>(failures_until({law, parts, FleetAge::fresh, RandomStream(5, h, 0)}, end_s).size());
      const auto b = static_cast<double>(part_by_part(law, parts, end_s, RandomStream(5, h, 1)).size());
      fast += a;
      fast2 += a * a;
      slow += b;
      slow2 += b * b;
    }
    const double n = histories;
    const double variance = (fast2 / n - (fast / n) * (fast / n)) + (slow2 / n - (slow / n) * (slow / n));
    CAPTURE(shape, end_s);
    CHECK(fast / n == Approx(slow / n).margin(3 * std::sqrt(variance / n)));
  }
}

TEST_CASE("a stationary fleet fails at the mean rate from the start, a fresh one of shape < 1 faster",
          "[oracle][reliability]") {
  const Law law{LawKind::weibull, 1000, 0.7};
  const int parts = 100;
  const int histories = 400;
  const double end_s = 50;  // 5 expected at the mean rate
  double stationary = 0, squares = 0, fresh = 0;
  for (std::uint32_t h = 0; h < histories; ++h) {
    const auto a =
        static_cast<double>(failures_until({law, parts, FleetAge::stationary, RandomStream(7, h, 0)}, end_s).size());
    stationary += a;
    squares += a * a;
    fresh += static_cast<double>(failures_until({law, parts, FleetAge::fresh, RandomStream(7, h, 0)}, end_s).size());
  }
  const double n = histories;
  const double error = std::sqrt((squares / n - (stationary / n) * (stationary / n)) / n);
  CHECK(stationary / n == Approx(5).margin(3 * error));
  // Renewal function of a fresh part is above F(50) = 1 - exp(-(50/790)^0.7) = 0.135: more than 13 failures.
  CHECK(fresh / n > 13);
  CHECK(fresh / n < 16);
}

TEST_CASE("fixed intervals: failures of a fleet are spread evenly", "[oracle][reliability]") {
  const Law law{LawKind::fixed, 60, 1};
  CHECK(failures_until({law, 1, FleetAge::fresh, RandomStream(1, 0, 0)}, 200) == std::vector<double>{60, 120, 180});
  CHECK(failures_until({law, 2, FleetAge::stationary, RandomStream(1, 0, 0)}, 100) == std::vector<double>{30, 60, 90});
}

TEST_CASE("an empty fleet never fails", "[reliability]") {
  const FleetFailures none({LawKind::weibull, 1, 0.7}, 0, FleetAge::fresh, RandomStream(1, 0, 0));
  CHECK(none.next_s() == std::numeric_limits<double>::infinity());
}
