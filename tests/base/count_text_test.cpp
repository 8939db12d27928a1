#include "sim/base/count_text.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("counts: as people write them", "[base]") {
  CHECK(parse_count("70B") == 70'000'000'000);
  CHECK(parse_count("15.6T") == 15'600'000'000'000);
  CHECK(parse_count("4k") == 4000);
  CHECK(parse_count("4K") == 4000);
  CHECK(parse_count("0.5M") == 500'000);
  // A number alone is none: the caller reads it. Nothing else is one either.
  for (const char* text : {"", "70", "B", "-1B", "0B", "1.2345k", "70 B", "70GB", "nanB", "1e30T"})
    CHECK_FALSE(parse_count(text).has_value());
}
