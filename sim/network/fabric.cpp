#include "sim/network/fabric.hpp"

namespace tracecast {

int WayChoice::pick(int ways, int hop) const {
  // SplitMix64's finaliser: every bit of the key and of the hop reaches every bit of the result.
  std::uint64_t x = key + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(hop) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return static_cast<int>(x % static_cast<std::uint64_t>(ways));
}

Fabric make_fabric(const Cluster& cluster, FabricDetail detail) {
  const bool groups = cluster.tiers.size() > 1;
  if (cluster.fabric == "dragonfly" && groups) return DragonflyFabric(cluster);
  if (cluster.fabric == "torus" && !cluster.shape.dimensions.empty()) return TorusFabric(cluster);
  return TreeFabric(cluster, detail);
}

}  // namespace tracecast
