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
