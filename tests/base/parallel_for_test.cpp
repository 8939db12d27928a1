#include "sim/base/parallel_for.hpp"

#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("a parallel loop does each piece once, on any number of threads", "[base]") {
  const int threads = GENERATE(-1, 0, 1, 2, 7, 100);
  const auto count = GENERATE(as<std::size_t>(), 0, 1, 2, 50);
  std::vector<std::atomic<int>> times(count);
  parallel_for(count, threads, [&](std::size_t i) { ++times[i]; });
  for (const std::atomic<int>& each : times) CHECK(each == 1);
}

TEST_CASE("a parallel loop returns after its slowest piece", "[base]") {
  std::atomic<bool> done = false;
  parallel_for(2, 2, [&](std::size_t i) {
    if (i == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  CHECK(done);
  CHECK(thread_count(3) == 3);
  CHECK(thread_count(0) >= 1);
}
