/// \file
/// What graph algorithms say about a topology. They store every link, so this is for looking at a cluster, not for routing
/// in one.
#pragma once

#include "sim/base/units.hpp"
#include "sim/network/topology.hpp"

namespace tracecast {

/// Most that the first half of the nodes can send to the second at once, by maximum flow over the fabric with every node as
/// one vertex (for a torus: over the links between its halves); in a single node from half of its GPUs to the others.
/// Requires more than one node or GPU.
Bandwidth bisection_bandwidth(const Topology& topology);

}  // namespace tracecast
