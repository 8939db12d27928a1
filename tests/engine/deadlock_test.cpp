// Deadlocks as cycles of waits.
#include "sim/engine/deadlock.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;
using namespace tracecast::engine;

namespace {

/// Waits named by letters, each with the numbers of those that it waits for.
std::string described(const std::vector<std::vector<std::int32_t>>& on) {
  std::vector<Wait> waits;
  for (std::size_t i = 0; i < on.size(); ++i)
    waits.push_back({std::string(1, static_cast<char>('a' + i)), "waits", on[i]});
  return to_string(describe_cycle(waits));
}

}  // namespace

TEST_CASE("deadlock: a cycle is found behind any dependency, not only behind the first", "[engine]") {
  // a waits for b, which only waits for its host, and for c, which waits for a.
  CHECK(described({{1, 2}, {}, {0}}) == "the step graph deadlocks: a waits; c waits");
  // The cycle is not reachable from the first wait.
  CHECK(described({{1}, {}, {3}, {2}}) == "the step graph deadlocks: c waits; d waits");
}

TEST_CASE("deadlock: the shortest cycle through a wait", "[engine]") {
  // a -> b -> c -> a and a -> d -> a
  CHECK(described({{1, 3}, {2}, {0}, {0}}) == "the step graph deadlocks: a waits; d waits");
  // Without the short one, in the order of the waits.
  CHECK(described({{1, 3}, {2}, {0}, {}}) == "the step graph deadlocks: a waits; b waits; c waits");
}

TEST_CASE("deadlock: without a cycle, the wait that nothing else delays", "[engine]") {
  CHECK(described({{1}, {2}, {}}) == "the step graph cannot finish: c waits");
  CHECK(described({{}}) == "the step graph cannot finish: a waits");
}
