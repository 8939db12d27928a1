/// \file
/// Which links a message between two GPUs loads, and with which share of it.
///
/// Inside a node it goes over the NVSwitch, over the direct link of a mesh, or over PCIe. Between nodes it leaves by the
/// NICs next to its GPU and arrives by those next to the other, split evenly over them; the i-th goes to the i-th where
/// both have as many, else each to each. On rail-optimised fabrics it first goes over NVLink to the GPU of its own host
/// that is on the rail of the other one (NCCL's PXN), so that it crosses no rails. In the fabric it takes the shortest ways
/// (trees), the minimal ones local-global-local (dragonfly), or dimension by dimension (torus).
///
/// Routes are computed when asked for, in time that grows with their own length only.
/// Source: docs/references.md#rails, docs/references.md#fat-tree, docs/references.md#dragonfly
#pragma once

#include <cstdint>
#include <vector>

#include "sim/network/topology.hpp"

namespace tracecast {

struct RoutingOptions {
  RoutingPolicy policy =
      RoutingPolicy::even;  ///< ecmp wants FabricDetail::switches, or there is nothing to choose between
  std::uint64_t seed = 1;
  bool rail_aware = true;  ///< over NVLink to the rail of the destination, where there are rails and NVLink
};

/// Loads in the order in which a message meets them. A weight is a share of kWholeFlow: a flow at rate r takes
/// r weight / kWholeFlow of a link.
struct FlowRoute {
  std::vector<LinkLoad> loads;
  Duration latency;       ///< of the longest way
  int switches = 0;       ///< of the fabric, at most; 0: inside a node
  bool connected = true;  ///< false: there is no way, and no loads
};

class Routing {
 public:
  explicit Routing(const Topology& topology, RoutingOptions options = {}) : topology_(topology), options_(options) {}

  /// `flow` tells flows of the same pair apart: by hash, flow i leaves and arrives by the i-th of the NICs beside its ends
  /// (from the first one again where there are fewer), and has a hash of its own.
  /// Requires two ranks of the cluster. No loads from a rank to itself.
  FlowRoute route(int from, int to, std::uint64_t flow = 0) const;
  const Topology& topology() const { return topology_; }

 private:
  struct Ends;
  void inside(int node, int from, int to, FlowRoute& route) const;
  void over_pcie(int node, int from, int to, FlowRoute& route) const;
  void between(GpuCoord from, GpuCoord to, std::uint64_t flow, FlowRoute& route) const;
  int departure(int node, int gpu, const std::vector<int>& rails) const;
  bool rail_aware() const;
  void cross_fabric(const Ends& ends, const PathSelector& selector, FlowRoute& route) const;
  void to_nic(int node, int gpu, int nic, std::int64_t weight, bool up, FlowRoute& route) const;
  void add(int node, int link, std::int64_t weight, FlowRoute& route) const;

  const Topology& topology_;
  RoutingOptions options_;
};

/// The highest rate at which a lone flow can take this route.
Bandwidth bottleneck(const Topology& topology, const FlowRoute& route);

}  // namespace tracecast
