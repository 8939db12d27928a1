#include "sim/base/integers.hpp"

#include <cstdint>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("integers: divisions and multiples are rounded up, exactly where they come out even", "[base]") {
  CHECK(ceil_div(0, 4) == 0);
  CHECK(ceil_div(1, 4) == 1);
  CHECK(ceil_div(8, 4) == 2);
  CHECK(ceil_div(9, 4) == 3);
  CHECK(round_up(std::int64_t{50257}, 128) == 50304);
  CHECK(round_up(256, 128) == 256);
}
