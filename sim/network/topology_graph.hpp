/// A topology as a Boost graph, and what graph algorithms say about it.
///
/// Vertices and edges have the numbers of the topology, so that both can be used side by side. It stores every link, so it
/// is for looking at a cluster, not for routing in one.
#pragma once

#include <cstdint>
#include <vector>

#include <boost/graph/compressed_sparse_row_graph.hpp>

#include "sim/base/units.hpp"
#include "sim/network/topology.hpp"

namespace tracecast {

struct TopologyEdge {
  int link = 0;
};

using TopologyGraph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, TopologyEdge,
                                                         boost::no_property, int, int>;

/// Links that are out of order are left out.
TopologyGraph make_graph(const Topology& topology);

/// Links from a vertex to every other on the way with the fewest; -1: there is none.
std::vector<int> link_distances(const TopologyGraph& graph, int from);

/// Most that the first half of the nodes can send to the second at once, by maximum flow over the fabric with every node as
/// one vertex (for a torus: over the links between its halves); in a single node from half of its GPUs to the others.
/// Requires more than one node or GPU.
Bandwidth bisection_bandwidth(const Topology& topology);

}  // namespace tracecast
