#include "sim/engine/deadlock.hpp"

#include <algorithm>
#include <utility>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/strong_components.hpp>

namespace tracecast::engine {
namespace {

using WaitGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

WaitGraph graph_of(const std::vector<Wait>& waits) {
  WaitGraph graph(waits.size());
  for (std::size_t i = 0; i < waits.size(); ++i)
    for (const std::int32_t on : waits[i].on) boost::add_edge(i, static_cast<std::size_t>(on), graph);
  return graph;
}

/// The first wait that waits for itself through others: one in a strongly connected component of several waits.
std::size_t first_in_cycle(const WaitGraph& graph) {
  const std::size_t count = boost::num_vertices(graph);
  std::vector<std::size_t> component(count);
  const std::size_t components = boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, graph)));
  std::vector<std::size_t> size(components);
  for (const std::size_t each : component) ++size[each];
  std::size_t at = 0;
  while (at < count && size[component[at]] == 1 && !boost::edge(at, at, graph).second) ++at;
  return at;
}

/// The shortest cycle through `start`.   Requires that there is one
std::vector<std::int32_t> cycle_through(const WaitGraph& graph, std::size_t start) {
  constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> before(boost::num_vertices(graph), kNone);
  boost::breadth_first_search(
      graph, start,
      boost::visitor(boost::make_bfs_visitor(boost::record_predecessors(before.data(), boost::on_tree_edge()))));
  std::vector<std::int32_t> shortest;
  for (std::size_t last = 0; last < before.size(); ++last) {
    if ((last != start && before[last] == kNone) || !boost::edge(last, start, graph).second) continue;
    std::vector<std::int32_t> cycle;
    for (std::size_t at = last; at != start; at = before[at]) cycle.push_back(static_cast<std::int32_t>(at));
    cycle.push_back(static_cast<std::int32_t>(start));
    if (shortest.empty() || cycle.size() < shortest.size()) shortest = std::move(cycle);
  }
  std::ranges::reverse(shortest);
  return shortest;
}

/// Without a cycle: the end of the first dependencies from the first wait on.
std::int32_t last_wait(const std::vector<Wait>& waits) {
  std::int32_t at = 0;
  while (!waits[static_cast<std::size_t>(at)].on.empty()) at = waits[static_cast<std::size_t>(at)].on.front();
  return at;
}

std::vector<std::int32_t> find_cycle(const std::vector<Wait>& waits) {
  const WaitGraph graph = graph_of(waits);
  const std::size_t start = first_in_cycle(graph);
  if (start == waits.size()) return {last_wait(waits)};
  return cycle_through(graph, start);
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
