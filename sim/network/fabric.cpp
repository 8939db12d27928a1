#include "sim/network/fabric.hpp"

#include <fmt/format.h>

namespace tracecast {

namespace {

/// SplitMix64's step (Steele, Lea, Flood 2014): every bit of the input affects every bit of the result.
std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {
  std::uint64_t x = state + 0x9e3779b97f4a7c15ULL * (value + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

int PathSelector::pick(int paths, int hop) const {
  return static_cast<int>(mixed(key, static_cast<std::uint64_t>(hop)) % static_cast<std::uint64_t>(paths));
}

PathSelector hashed_selector(std::uint64_t seed, NicId from, NicId to, std::uint64_t flow) {
  PathSelector selector{true, seed};
  for (const int part : {from.node, from.nic, to.node, to.nic})
    selector.key = mixed(selector.key, static_cast<std::uint64_t>(part));
  selector.key = mixed(selector.key, flow);
  return selector;
}

Fabric make_fabric(const Cluster& cluster, FabricDetail detail) {
  if (detail == FabricDetail::bundles) return TreeFabric(cluster, detail);
  const bool groups = cluster.tiers.size() > 1;
  if (cluster.fabric == FabricKind::dragonfly && groups) return DragonflyFabric(cluster);
  if (cluster.fabric == FabricKind::torus && !cluster.shape.dimensions.empty()) return TorusFabric(cluster);
  return TreeFabric(cluster, detail);
}

std::string path_text(const Cluster& cluster) {
  if (cluster.routing == RoutingPolicy::even) return "";
  const std::string text =
      fmt::format("each flow takes one path through the fabric, by a hash with seed {} (ECMP)", cluster.routing_seed);
  const int links =
      std::visit([](const auto& fabric) { return fabric.link_count(); }, make_fabric(cluster, FabricDetail::planes));
  return links > 0 ? text : text + "; this fabric is described as one switch with a single path";
}

}  // namespace tracecast
