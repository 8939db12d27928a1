#include "sim/reliability/fit.hpp"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "sim/reliability/laws.hpp"

using namespace tracecast;

namespace {

/// Parts that are watched for `end_s` seconds, replaced when they fail.
Lifetimes watched(const Law& law, int parts, double end_s, RandomStream random) {
  Lifetimes lifetimes;
  for (int part = 0; part < parts; ++part) {
    double now = 0;
    for (double life = draw_s(law, random); now + life < end_s; life = draw_s(law, random)) {
      lifetimes.failed_s.push_back(life);
      now += life;
    }
    lifetimes.censored.push_back({end_s - now, 1});
  }
  return lifetimes;
}

}  // namespace

TEST_CASE("mean of an exponential law with its interval", "[oracle][reliability]") {
  // 10 failures in 1000: chi2(0.975; 22) = 36.7807, chi2(0.025; 20) = 9.59078.
  const IntervalEstimate ten = exponential_mean_s(10, 1000, 0.95);
  CHECK(ten.value == 100);
  CHECK(ten.low == Approx(2000 / 36.7807).epsilon(1e-5));
  CHECK(ten.high == Approx(2000 / 9.59078).epsilon(1e-5));
  // None in 1000: the rule of three, chi2(0.975; 2) = -2 ln 0.025.
  const IntervalEstimate none = exponential_mean_s(0, 1000, 0.95);
  CHECK(none.low == Approx(-1000 / std::log(0.025)));
  CHECK(none.high == std::numeric_limits<double>::infinity());
}

TEST_CASE("weibull: a fit by hand", "[oracle][reliability]") {
  // Lifetimes 1, 2, 4: ln t symmetric around ln 2. The score equation is solved by k = 1.9926 (checked below), and the
  // scale follows from it: (sum t^k / 3)^(1/k).
  const WeibullFit fit = fit_weibull({{1, 2, 4}, {}}, 0.95).value();
  const double k = fit.shape.value;
  double sum = 0, logs = 0;
  for (const double t : {1.0, 2.0, 4.0}) {
    sum += std::pow(t, k);
    logs += std::pow(t, k) * std::log(t);
  }
  CHECK(1 / k + std::log(2.0) - logs / sum == Approx(0).margin(1e-9));
  CHECK(fit.mean_s.value == Approx(std::pow(sum / 3, 1 / k) * std::tgamma(1 + 1 / k)));
}

TEST_CASE("weibull: confidence intervals contain the true value as often as stated", "[property][reliability]") {
  const double shape = GENERATE(0.7, 1.8);
  const Law law{LawKind::weibull, 1000, shape};
  int shape_in = 0, mean_in = 0, rejected = 0;
  const int repetitions = 200;
  for (std::uint32_t i = 0; i < repetitions; ++i) {
    const WeibullFit fit = fit_weibull(watched(law, 60, 1500, RandomStream(11, i, 0)), 0.95).value();
    shape_in += fit.shape.low <= shape && shape <= fit.shape.high;
    mean_in += fit.mean_s.low <= 1000 && 1000 <= fit.mean_s.high;
    rejected += fit.p_value < 0.05;
  }
  // 95 % of 200 is 190, standard deviation 3.1.
  CHECK(shape_in >= 178);
  CHECK(mean_in >= 178);
  CHECK(shape_in < 200);
  CHECK(rejected > 180);  // of exponential laws
}

TEST_CASE("the likelihood ratio test rejects an exponential law at its significance level", "[property][reliability]") {
  int rejected = 0;
  for (std::uint32_t i = 0; i < 200; ++i)
    rejected +=
        fit_weibull(watched({LawKind::exponential, 1000, 1}, 60, 1500, RandomStream(12, i, 0)), 0.95).value().p_value <
        0.05;
  CHECK(rejected >= 2);
  CHECK(rejected <= 22);
}

TEST_CASE("too few failures for a fit are an error", "[error][reliability]") {
  CHECK(to_string(fit_weibull({{1, 2}, {}}, 0.95).error()) == "a Weibull law needs at least three failures");
  CHECK(to_string(fit_weibull({{2, 2, 2}, {}}, 0.95).error()) == "all failures have one age: no law can be fitted");
}
