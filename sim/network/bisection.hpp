/// \file
/// Graph algorithms on a topology. They store every link, so they are for reports, not for routing.
#pragma once

#include "sim/base/units.hpp"
#include "sim/network/topology.hpp"

namespace tracecast {

/// The maximum rate at which the first half of the nodes can send to the second, by maximum flow over the fabric with every
/// node as one vertex (torus: over the links between its halves). In a single node: from half of its GPUs to the others.
/// Requires more than one node or GPU.
Bandwidth bisection_bandwidth(const Topology& topology);

}  // namespace tracecast
