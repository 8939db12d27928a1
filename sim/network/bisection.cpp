#include "sim/network/bisection.hpp"

#include <map>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<boost::edge_capacity_t, std::int64_t,
                    boost::property<boost::edge_residual_capacity_t, std::int64_t,
                                    boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;

/// Vertices joined by the summed capacity of their links, between a source and a sink.
class FlowProblem {
 public:
  explicit FlowProblem(int vertices)
      : graph_(static_cast<std::size_t>(vertices) + 2), source_(vertices), sink_(vertices + 1) {}

  void add(int from, int to, std::int64_t capacity) {
    if (from != to) capacities_[{from, to}] += capacity;
  }
  void add_source(int vertex) { sources_.push_back(vertex); }
  void add_sink(int vertex) { sinks_.push_back(vertex); }

  std::int64_t solve() {
    join_ends();
    const auto capacity = boost::get(boost::edge_capacity, graph_);
    const auto reverse = boost::get(boost::edge_reverse, graph_);
    for (const auto& [ends, rate] : capacities_) {
      // Each direction with an empty edge back: Boost returns what cannot reach the sink over empty edges only.
      const auto forth = boost::add_edge(vertex(ends.first), vertex(ends.second), graph_).first;
      const auto back = boost::add_edge(vertex(ends.second), vertex(ends.first), graph_).first;
      capacity[forth] = rate;
      capacity[back] = 0;
      reverse[forth] = back;
      reverse[back] = forth;
    }
    return boost::push_relabel_max_flow(graph_, vertex(source_), vertex(sink_));
  }

 private:
  /// Source and sink are joined by as much as the other links of a vertex carry: no limit, and sums stay small.
  void join_ends() {
    std::map<int, std::int64_t> leaving;
    std::map<int, std::int64_t> coming;
    for (const auto& [ends, rate] : capacities_) {
      leaving[ends.first] += rate;
      coming[ends.second] += rate;
    }
    for (const int vertex : sources_) add(source_, vertex, leaving[vertex]);
    for (const int vertex : sinks_) add(vertex, sink_, coming[vertex]);
  }
  static std::size_t vertex(int id) { return static_cast<std::size_t>(id); }

  FlowGraph graph_;
  int source_;
  int sink_;
  std::vector<int> sources_;
  std::vector<int> sinks_;
  std::map<std::pair<int, int>, std::int64_t> capacities_;
};

/// Between halves of the GPUs of node 0.
std::int64_t node_bisection(const Topology& topology) {
  const NodeLayout& layout = topology.node();
  FlowProblem problem(layout.vertices());
  for (int id = 0; id < layout.nic_cable(0); ++id) {
    const TopologyLink link = topology.link(id);
    problem.add(link.from, link.to, link.capacity.bytes_per_second);
  }
  for (int gpu = 0; gpu < layout.gpus; ++gpu) gpu < layout.gpus / 2 ? problem.add_source(gpu) : problem.add_sink(gpu);
  return problem.solve();
}

/// Between halves of the routers: a ring is cut twice.
std::int64_t torus_bisection(const Topology& topology) {
  const int half = topology.first_switch() + (topology.vertex_count() - topology.first_switch()) / 2;
  std::int64_t sum = 0;
  for (int id = topology.first_fabric_link(); id < topology.link_count(); ++id) {
    const TopologyLink link = topology.link(id);
    if (link.from < half && link.to >= half) sum += link.capacity.bytes_per_second;
  }
  return sum;
}

std::int64_t fabric_bisection(const Topology& topology) {
  const int nodes = topology.nodes();
  const NodeLayout& layout = topology.node();
  const auto contracted = [&](int vertex) {
    return vertex < topology.first_switch() ? vertex / layout.vertices() : nodes + vertex - topology.first_switch();
  };
  FlowProblem problem(nodes + topology.vertex_count() - topology.first_switch());
  const auto add = [&](int id) {
    const TopologyLink link = topology.link(id);
    problem.add(contracted(link.from), contracted(link.to), link.capacity.bytes_per_second);
  };
  for (int node = 0; node < nodes; ++node) {
    for (int i = 0; i < 2 * layout.nics; ++i) add(topology.node_link(node, layout.nic_cable(0) + i));
    node < nodes / 2 ? problem.add_source(node) : problem.add_sink(node);
  }
  for (int id = topology.first_fabric_link(); id < topology.link_count(); ++id) add(id);
  return problem.solve();
}

}  // namespace

Bandwidth bisection_bandwidth(const Topology& topology) {
  TRACECAST_ASSERT(topology.nodes() > 1 || topology.node().gpus > 1, "halves of a topology are not empty");
  if (topology.nodes() == 1) return {node_bisection(topology)};
  if (std::holds_alternative<TorusFabric>(topology.fabric())) return {torus_bisection(topology)};
  return {fabric_bisection(topology)};
}

}  // namespace tracecast
