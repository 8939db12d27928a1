/// A fabric whose tiers few ranks already climb: DGX H100 nodes, leaves of 4 nodes, spines of 16.
#pragma once

#include "tests/network/clusters.hpp"

namespace tracecast {

inline Cluster small_cluster(int ranks, double oversubscription = 1, FabricKind fabric = FabricKind::rail_optimized) {
  using namespace literals;
  Cluster cluster = dgx_h100(ranks);
  cluster.fabric = fabric;
  cluster.tiers = {{"leaf", 4, oversubscription, 500_ns}, {"spine", 16, 1, 500_ns}, {"core", 0, 1, {}}};
  return cluster;
}

}  // namespace tracecast
