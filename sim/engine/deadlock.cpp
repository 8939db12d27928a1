#include "sim/engine/deadlock.hpp"

#include <algorithm>

namespace tracecast::engine {
namespace {

/// Follows the first edge of each wait until a wait comes up again; that must happen, or an edge is missing.
std::vector<std::int32_t> find_circle(const std::vector<Wait>& waits) {
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

Error describe_deadlock(const std::vector<Wait>& waits) {
  const std::vector<std::int32_t> circle = find_circle(waits);
  std::string text = circle.size() > 1 ? "the step graph deadlocks: " : "the step graph cannot finish: ";
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const Wait& wait = waits[static_cast<std::size_t>(circle[i])];
    if (i > 0) text += "; ";
    text += wait.where + " " + wait.what;
  }
  return fail(text).value();
}

}  // namespace tracecast::engine
