/// \file
/// Graph algorithms on a topology, by Boost.Graph: maximum flow and minimum cut between its halves, and connected parts, also
/// where switches are broken. They store every link, so they are for reports, not for routing.
#pragma once

#include <set>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/topology.hpp"

namespace tracecast {

/// Vertices of a topology that do not work; no link to or from them is used.
using BrokenVertices = std::set<int>;

struct Bisection {
  Bandwidth rate;
  /// Links of the minimum cut, from the side of the first half: they carry the maximum flow, all at their full rate.
  std::vector<int> cut;
};

/// The maximum rate at which the first half of the nodes can send to the second, by maximum flow over the fabric with every
/// node as one vertex (torus: over the links between its halves). In a single node: from half of its GPUs to the others.
/// Requires more than one node or GPU.
Bisection bisect(const Topology& topology, const BrokenVertices& broken = {});

/// Nodes that do not reach the largest connected part of the fabric, by connected components; failed links join nothing.
std::vector<int> cut_off_nodes(const Topology& topology, const BrokenVertices& broken = {});

}  // namespace tracecast
