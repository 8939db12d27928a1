/// Clusters with every kind of fabric, for tests of topologies and routes.
#pragma once

#include "sim/network/topology.hpp"
#include "tests/network/clusters.hpp"

namespace tracecast {

/// Leaves of 4 nodes, pods of 16, a core; rails or not.
inline Cluster three_tiers(FabricKind kind, int nodes) {
  using namespace literals;
  Cluster cluster = dgx_h100(8 * nodes);
  cluster.name = to_string(kind);
  cluster.fabric = kind;
  cluster.tiers = {{"leaf", 4, 2, 500_ns}, {"spine", 16, 4, 300_ns}, {"core", 0, 1, 0_ns}};
  return cluster;
}

/// docs/references.md#frontier: 128 nodes of 4 NICs a group, 32 routers, 74 groups joined by 4 cables each.
inline Cluster frontier_like(int nodes) {
  using namespace literals;
  Cluster cluster = dgx_a100(8 * nodes);
  cluster.name = "frontier";
  cluster.node.link = IntraLink::xgmi;
  cluster.node.gpu_link = 150_GBps;
  cluster.node.nics = 4;
  cluster.node.nic_latency = 1800_ns;
  cluster.node.link_latency = 1_us;
  cluster.fabric = FabricKind::dragonfly;
  cluster.tiers = {{"group", 128, 1.753, 600_ns}, {"global", 0, 1, 0_ns}};
  cluster.max_nodes = 9472;
  return cluster;
}

/// TofuD: one processor a node, 6 network interfaces.
inline Cluster torus(int nodes, std::vector<int> dimensions) {
  using namespace literals;
  Cluster cluster;
  cluster.name = "torus";
  cluster.node.gpus = cluster.node.gpus_per_host = 1;
  cluster.node.link = IntraLink::none;
  cluster.node.nics = 6;
  cluster.node.nic_rate = {6'800'000'000};
  cluster.node.nic_latency = 500_ns;
  cluster.node.pcie = {40'800'000'000};
  cluster.fabric = FabricKind::torus;
  cluster.tiers = {{"torus", 0, 1, 100_ns}};
  cluster.shape.dimensions = std::move(dimensions);
  cluster.world_size = nodes;
  return cluster;
}

/// The NICs that a GPU uses.
inline std::vector<int> nics_next_to(const Topology& topology, int node, int gpu) {
  return topology.ports().nics(node, topology.ports().exit({node, gpu}, -1).port);
}

}  // namespace tracecast
