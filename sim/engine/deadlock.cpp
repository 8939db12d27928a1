#include "sim/engine/deadlock.hpp"

#include <algorithm>

namespace tracecast::engine {
namespace {

/// Follows the first dependency of each wait until a wait repeats or has no dependency.
std::vector<std::int32_t> find_cycle(const std::vector<Wait>& waits) {
  std::vector<std::int32_t> path;
  std::int32_t at = 0;
  while (true) {
    const auto seen = std::find(path.begin(), path.end(), at);
    if (seen != path.end()) return {seen, path.end()};
    path.push_back(at);
    const std::vector<std::int32_t>& next = waits[static_cast<std::size_t>(at)].on;
    if (next.empty()) return {at};
    at = next.front();
  }
}

}  // namespace

Error describe_cycle(const std::vector<Wait>& waits) {
  const std::vector<std::int32_t> cycle = find_cycle(waits);
  std::string text = cycle.size() > 1 ? "the step graph deadlocks: " : "the step graph cannot finish: ";
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Wait& wait = waits[static_cast<std::size_t>(cycle[i])];
    if (i > 0) text += "; ";
    text += wait.where + " " + wait.what;
  }
  return fail(text).value();
}

}  // namespace tracecast::engine
