#include "sim/network/bisection.hpp"

#include <algorithm>
#include <map>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/filtered_graph.hpp>
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

  /// After solve(): the side of the source of a minimum cut, by vertex: what it reaches over links with capacity left.
  std::vector<bool> side_of_source() const {
    const Residual residual{boost::get(boost::edge_residual_capacity, graph_)};
    const boost::filtered_graph<FlowGraph, Residual> left(graph_, residual);
    std::vector<boost::default_color_type> colours(boost::num_vertices(graph_));
    boost::breadth_first_search(
        left, vertex(source_),
        boost::color_map(boost::make_iterator_property_map(colours.begin(), boost::get(boost::vertex_index, graph_))));
    std::vector<bool> reached;
    for (const boost::default_color_type colour : colours)
      reached.push_back(colour != boost::color_traits<boost::default_color_type>::white());
    return reached;
  }

 private:
  struct Residual {
    boost::property_map<FlowGraph, boost::edge_residual_capacity_t>::const_type capacity;
    bool operator()(const boost::graph_traits<FlowGraph>::edge_descriptor& edge) const {
      return boost::get(capacity, edge) > 0;
    }
  };

  /// Source and sink are joined by more than the other links of a vertex carry: no limit, and sums stay small.
  void join_ends() {
    std::map<int, std::int64_t> leaving;
    std::map<int, std::int64_t> coming;
    for (const auto& [ends, rate] : capacities_) {
      leaving[ends.first] += rate;
      coming[ends.second] += rate;
    }
    for (const int vertex : sources_) add(source_, vertex, leaving[vertex] + 1);
    for (const int vertex : sinks_) add(vertex, sink_, coming[vertex] + 1);
  }
  static std::size_t vertex(int id) { return static_cast<std::size_t>(id); }

  FlowGraph graph_;
  int source_;
  int sink_;
  std::vector<int> sources_;
  std::vector<int> sinks_;
  std::map<std::pair<int, int>, std::int64_t> capacities_;
};

/// The links of a topology between the vertices of a smaller graph.
class Contracted {
 public:
  Contracted(const Topology& topology, const BrokenVertices& broken) : topology_(topology), broken_(broken) {}

  /// Every node is one vertex, and every switch of the fabric.
  int vertices() const { return topology_.nodes() + topology_.vertex_count() - topology_.first_switch(); }
  int of(int vertex) const {
    return vertex < topology_.first_switch() ? vertex / topology_.node().vertices()
                                             : topology_.nodes() + vertex - topology_.first_switch();
  }
  /// Calls use(id, link) for all working links out of nodes and between switches.
  template <class Use>
  void for_each_link(Use use) const {
    const NodeLayout& layout = topology_.node();
    const auto offer = [&](int id) {
      const TopologyLink link = topology_.link(id);
      if (link.capacity.bytes_per_second > 0 && !broken_.contains(link.from) && !broken_.contains(link.to))
        use(id, link);
    };
    for (int node = 0; node < topology_.nodes(); ++node)
      for (int i = 0; i < 2 * layout.nics; ++i) offer(topology_.node_link(node, layout.nic_cable(0) + i));
    for (int id = topology_.first_fabric_link(); id < topology_.link_count(); ++id) offer(id);
  }

 private:
  const Topology& topology_;
  const BrokenVertices& broken_;
};

/// Between halves of the GPUs of node 0.
Bisection node_bisection(const Topology& topology) {
  const NodeLayout& layout = topology.node();
  FlowProblem problem(layout.vertices());
  for (int id = 0; id < layout.nic_cable(0); ++id) {
    const TopologyLink link = topology.link(id);
    problem.add(link.from, link.to, link.capacity.bytes_per_second);
  }
  for (int gpu = 0; gpu < layout.gpus; ++gpu) gpu < layout.gpus / 2 ? problem.add_source(gpu) : problem.add_sink(gpu);
  Bisection bisection{{problem.solve()}, {}};
  const std::vector<bool> first = problem.side_of_source();
  for (int id = 0; id < layout.nic_cable(0); ++id) {
    const TopologyLink link = topology.link(id);
    if (first[static_cast<std::size_t>(link.from)] && !first[static_cast<std::size_t>(link.to)])
      bisection.cut.push_back(id);
  }
  return bisection;
}

/// Between halves of the routers: a ring is cut twice.
Bisection torus_bisection(const Topology& topology, const BrokenVertices& broken) {
  const int half = topology.first_switch() + (topology.vertex_count() - topology.first_switch()) / 2;
  Bisection bisection;
  Contracted(topology, broken).for_each_link([&](int id, const TopologyLink& link) {
    if (link.kind != LinkKind::fabric || link.from >= half || link.to < half) return;
    bisection.rate.bytes_per_second += link.capacity.bytes_per_second;
    bisection.cut.push_back(id);
  });
  return bisection;
}

Bisection fabric_bisection(const Topology& topology, const BrokenVertices& broken) {
  const Contracted graph(topology, broken);
  FlowProblem problem(graph.vertices());
  graph.for_each_link([&](int, const TopologyLink& link) {
    problem.add(graph.of(link.from), graph.of(link.to), link.capacity.bytes_per_second);
  });
  const int nodes = topology.nodes();
  for (int node = 0; node < nodes; ++node) node < nodes / 2 ? problem.add_source(node) : problem.add_sink(node);
  Bisection bisection{{problem.solve()}, {}};
  const std::vector<bool> first = problem.side_of_source();
  graph.for_each_link([&](int id, const TopologyLink& link) {
    if (first[static_cast<std::size_t>(graph.of(link.from))] && !first[static_cast<std::size_t>(graph.of(link.to))])
      bisection.cut.push_back(id);
  });
  return bisection;
}

}  // namespace

Bisection bisect(const Topology& topology, const BrokenVertices& broken) {
  TRACECAST_ASSERT(topology.nodes() > 1 || topology.node().gpus > 1, "halves of a topology are not empty");
  if (topology.nodes() == 1) return node_bisection(topology);
  if (std::holds_alternative<TorusFabric>(topology.fabric())) return torus_bisection(topology, broken);
  return fabric_bisection(topology, broken);
}

std::vector<int> cut_off_nodes(const Topology& topology, const BrokenVertices& broken) {
  const Contracted contracted(topology, broken);
  boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> graph(
      static_cast<std::size_t>(contracted.vertices()));
  contracted.for_each_link([&](int, const TopologyLink& link) {
    boost::add_edge(static_cast<std::size_t>(contracted.of(link.from)),
                    static_cast<std::size_t>(contracted.of(link.to)), graph);
  });
  std::vector<std::size_t> part(boost::num_vertices(graph));
  const std::size_t parts = boost::connected_components(
      graph, boost::make_iterator_property_map(part.begin(), boost::get(boost::vertex_index, graph)));
  std::vector<int> nodes(parts);
  for (int node = 0; node < topology.nodes(); ++node) ++nodes[part[static_cast<std::size_t>(node)]];
  const auto largest = static_cast<std::size_t>(std::ranges::max_element(nodes) - nodes.begin());
  std::vector<int> cut_off;
  for (int node = 0; node < topology.nodes(); ++node)
    if (part[static_cast<std::size_t>(node)] != largest) cut_off.push_back(node);
  return cut_off;
}

}  // namespace tracecast
