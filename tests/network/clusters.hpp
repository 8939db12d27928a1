/// Clusters built by hand for the tests of the network: shapes of real ones, without any fitted correction.
#pragma once

#include <numeric>
#include <vector>

#include "sim/network/cluster.hpp"

namespace tracecast {

/// 0, 1, …, n-1, or `n` numbers from `first` in steps of `step`.
inline std::vector<int> range(int n, int first = 0, int step = 1) {
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (int& rank : ranks) rank = first + step * rank;
  return ranks;
}

inline Cluster dgx_a100(int ranks) {
  using namespace literals;
  Cluster cluster;
  cluster.name = "dgx-a100";
  cluster.gpu = "a100";
  cluster.node.gpu_link = 300_GBps;
  cluster.node.nic_rate = 200_Gbps;
  cluster.node.pcie = 26_GBps;
  cluster.node.cpu = CpuKind::amd;
  cluster.fabric = FabricKind::rail_optimized;
  cluster.tiers = {{"leaf", 20, 1, 500_ns}, {"spine", 140, 1, 500_ns}, {"core", 0, 1, 0_ns}};
  cluster.world_size = ranks;
  return cluster;
}

inline Cluster dgx_h100(int ranks) {
  using namespace literals;
  Cluster cluster = dgx_a100(ranks);
  cluster.name = "dgx-h100";
  cluster.gpu = "h100";
  cluster.node.gpu_link = 450_GBps;
  cluster.node.nic_rate = 400_Gbps;
  cluster.node.pcie = 53_GBps;
  cluster.node.cpu = CpuKind::intel;
  cluster.node.nvls = true;
  cluster.tiers[0].nodes = 32;
  cluster.tiers[1].nodes = 256;
  return cluster;
}

}  // namespace tracecast
