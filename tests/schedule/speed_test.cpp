/// Building and checking a large schedule is quick enough to do it for every candidate of a search.
#include <algorithm>
#include <ctime>

#include <catch2/catch.hpp>

#include "sim/schedule/schedule.hpp"
#include "tests/support/cases.hpp"

using namespace tracecast;

TEST_CASE("P=64, M=1024, V=4 is built and checked in under 200 ms", "[schedule][speed]") {
  if (test::kSanitized) {
    WARN("skipped: sanitizers slow everything down");
    return;
  }
  const std::string name = GENERATE("interleaved-1f1b", "looped-bfs", "interleaved-zb", "hanayo");
  double best_ms = 1e9;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const std::clock_t begin = std::clock();  // processor time: other programs on the machine do not count
    const Result<Schedule> schedule = make_schedule(name, {.ranks = 64, .microbatches = 1024, .chunks = 4});
    REQUIRE(check(*schedule));
    best_ms = std::min(best_ms, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  INFO(name << ": " << best_ms << " ms");
  CHECK(best_ms < 200);
}
