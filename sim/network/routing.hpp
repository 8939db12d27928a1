/// \file
/// Which links a message between two GPUs loads, and with which share of it.
///
/// Inside a node a message uses the NVSwitch, the direct link of a mesh, or PCIe. Between nodes it leaves through the NICs
/// next to its GPU and arrives through those next to the other GPU, split evenly over them: NIC i to NIC i if both have the
/// same number, else all to all. On rail-optimised fabrics it first goes over NVLink to the GPU of its own host that is on
/// the rail of the destination (NCCL's PXN), so that it does not change rails. In the fabric it takes the shortest paths
/// (trees), minimal paths local-global-local (dragonfly), or goes dimension by dimension (torus).
///
/// Routes are computed on request, in time proportional to their length.
/// Leaves out: adaptive routing, and congestion.
/// Source: docs/references.md#rails, docs/references.md#fat-tree, docs/references.md#dragonfly
#pragma once

#include <cstdint>
#include <vector>

#include "sim/network/topology.hpp"

namespace tracecast {

struct RoutingOptions {
  RoutingPolicy policy = RoutingPolicy::even;  ///< ecmp needs FabricDetail::switches to have a choice
  std::uint64_t seed = 1;
  bool rail_aware = true;  ///< over NVLink to the rail of the destination, if there are rails and NVLink
};

/// Loads in the order of the path. A weight is a share of kWholeFlow: a flow at rate r takes
/// r weight / kWholeFlow of a link.
struct FlowRoute {
  std::vector<LinkLoad> loads;
  Duration latency;       ///< of the longest path
  int switches = 0;       ///< of the fabric, on the longest path; 0: inside a node
  bool connected = true;  ///< false: no path, no loads
};

class Routing {
 public:
  explicit Routing(const Topology& topology, RoutingOptions options = {}) : topology_(topology), options_(options) {}

  /// `flow` numbers the flows of one pair. With hashing, flow i uses the i-th of the NICs next to its ends (modulo their
  /// number), and has its own hash. A rank to itself has no loads.   Requires two ranks of the cluster
  FlowRoute route(int from, int to, std::uint64_t flow = 0) const;
  const Topology& topology() const { return topology_; }

 private:
  struct Ends;
  void inside(int node, int from, int to, FlowRoute& route) const;
  void over_pcie(int node, int from, int to, FlowRoute& route) const;
  void between(GpuCoord from, GpuCoord to, std::uint64_t flow, FlowRoute& route) const;
  int departure(GpuCoord source, int arrival) const;
  bool rail_aware() const;
  void cross_fabric(const Ends& ends, const PathSelector& selector, FlowRoute& route) const;
  void to_nic(int node, int gpu, int nic, std::int64_t weight, bool up, FlowRoute& route) const;
  void add(int node, int link, std::int64_t weight, FlowRoute& route) const;

  const Topology& topology_;
  RoutingOptions options_;
};

/// The highest rate of a single flow on this route.
Bandwidth bottleneck(const Topology& topology, const FlowRoute& route);

}  // namespace tracecast
