/// \file
/// A topology as a SimGrid platform (DTD 4.1).
#pragma once

#include <string>

#include "sim/network/topology.hpp"

namespace tracecast {

/// Property of the zone in which an export keeps the topology that it was made from, so that it can be read back.
inline constexpr const char* kSimgridProperty = "tracecast.topology";

/// One zone with Dijkstra routing: GPUs are hosts ("node0/gpu3"), all other vertices routers, every pair of links one of
/// SPLITDUPLEX sharing with the rate and latency of its direction upwards, joined by a route of one hop.
/// Routes are SimGrid's shortest paths: flows are not divided over equal paths, and rails are not preferred.
std::string to_simgrid(const Topology& topology);

}  // namespace tracecast
