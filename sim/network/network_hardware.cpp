#include "sim/network/network_hardware.hpp"

#include <vector>

#include "sim/network/fabric.hpp"

namespace tracecast {
namespace {

/// Ports of switches whose size the topology does not give: those of InfiniBand in reference systems (docs/references.md#dgx-superpod).
constexpr int kUsualPorts = 64;

/// Of each tier below the top: downlink / uplink bandwidth.
std::vector<double> oversubscriptions(const Cluster& cluster) {
  const std::vector<FabricTier> tiers = used_tiers(cluster, FabricDetail::planes);
  std::vector<double> result;
  if (tiers.size() > 1 || tiers.front().nodes > 0) {
    for (const FabricTier& tier : tiers) result.push_back(tier.oversubscription);
    result.pop_back();
    return result;
  }
  // A fabric of unknown structure: as many tiers without oversubscription as its NICs need.
  const int ports = cluster.shape.switch_ports > 2 ? cluster.shape.switch_ports : kUsualPorts;
  const double nics = static_cast<double>(cluster.nodes()) * cluster.node.hosts() * cluster.node.nics;
  for (double reached = ports; reached < nics; reached *= ports / 2.0) result.push_back(1);
  return result;
}

}  // namespace

NetworkHardware network_hardware(const Cluster& cluster) {
  const NodeSpec& node = cluster.node;
  if (cluster.fabric == FabricKind::none || node.nics == 0 || cluster.nodes() <= 1) return {};
  constexpr double kGigabitsPerByte = 8e-9;
  const int gpus = node.gpus / node.hosts();
  double rate = kGigabitsPerByte * static_cast<double>(node.nic_rate.bytes_per_second) * node.nics / gpus;
  NetworkHardware hardware{rate, rate};
  for (const double oversubscription : oversubscriptions(cluster)) {
    rate /= oversubscription;
    hardware.ports += 2 * rate;
    hardware.cables += rate;
  }
  return hardware;
}

}  // namespace tracecast
