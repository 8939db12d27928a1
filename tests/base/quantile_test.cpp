#include "sim/base/quantile.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("quantiles interpolate between order statistics", "[base][oracle]") {
  CHECK(quantile({3, 1, 2, 4}, 0) == 1);
  CHECK(quantile({3, 1, 2, 4}, 0.5) == 2.5);
  CHECK(quantile({3, 1, 2, 4}, 1) == 4);
  CHECK(quantile({10, 20}, 0.25) == 12.5);
  CHECK(quantile({7}, 0.9) == 7);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({}) == 0);
}

TEST_CASE("relative spread: quartiles interpolate, so that two measurements have one, too", "[base][oracle]") {
  constexpr double kQuartiles = 1.349;  // of a normal distribution of deviation 1
  CHECK(relative_spread({300, 100}) == Approx((250.0 - 150) / kQuartiles / 200));  // 0.37
  CHECK(relative_spread({4, 1, 3, 2}) == Approx((3.25 - 1.75) / kQuartiles / 2.5));
  CHECK(relative_spread({7}) == 0);
  CHECK(relative_spread({0, 0, 1}) == 0);
}
