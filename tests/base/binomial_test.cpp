#include "sim/base/binomial.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("at most so many hits: by hand, and halves of a coin", "[oracle][base]") {
  CHECK(at_most(0, 1, 0.85) == Approx(0.15));
  CHECK(at_most(1, 1, 0.85) == Approx(1));
  // Three trials: 0.15^3, then 3 x 0.85 x 0.15^2 more.
  CHECK(at_most(0, 3, 0.85) == Approx(0.003375));
  CHECK(at_most(1, 3, 0.85) == Approx(0.003375 + 3 * 0.85 * 0.0225));
  // A coin thrown an odd number of times: as often at most half as more than half.
  for (const int trials : {1, 7, 99, 1001}) CHECK(at_most(trials / 2, trials, 0.5) == Approx(0.5));
  // With many trials, one deviation below the mean: the normal distribution's 0.159, with half a hit's correction.
  const double deviation = std::sqrt(10'000 * 0.85 * 0.15);
  CHECK(at_most(static_cast<int>(8'500 - deviation), 10'000, 0.85) == Approx(0.1587).margin(0.005));
}
