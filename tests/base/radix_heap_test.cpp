#include "sim/base/radix_heap.hpp"

#include <queue>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

TEST_CASE("A radix heap hands out in order what a heap does", "[property][base]") {
  RandomStream random(5, 0, 0);
  for (int trial = 0; trial < 50; ++trial) {
    RadixHeap<int> radix;
    std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> heap;
    std::int64_t now = 0;
    // Above and below the number of entries that are kept sorted.
    const std::uint64_t pushes = trial % 2 == 0 ? 2 : 4;
    for (int step = 0; step < 800; ++step) {
      if (heap.empty() || random.below(5) < pushes) {
        const std::int64_t key = now + static_cast<std::int64_t>(random.below(1ULL << random.below(50)));
        radix.push(key, step);
        heap.push(key);
        continue;
      }
      now = heap.top();
      CHECK(radix.front() == now);
      while (radix.more_now()) {
        radix.pop();
        CHECK(heap.top() == now);
        heap.pop();
      }
      CHECK((heap.empty() || heap.top() > now));
    }
    CHECK(radix.empty() == heap.empty());
  }
}

}  // namespace
}  // namespace tracecast
