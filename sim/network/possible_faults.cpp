#include "sim/network/possible_faults.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace tracecast {
namespace {

bool is_lost(const NetworkFaults& faults, int rail) { return std::ranges::count(faults.lost_rails, rail) > 0; }

void check_nics(const Cluster& cluster, std::vector<ImpossibleValue>& found) {
  const NetworkFaults& faults = cluster.faults;
  const int nics = cluster.node.nics;
  if (nics == 0) {
    if (!faults.lost_rails.empty()) found.push_back({"lost_rails", "hosts have no NIC"});
    if (!faults.slow_nics.empty()) found.push_back({"slow_nic", "hosts have no NIC"});
    return;
  }
  for (const int rail : faults.lost_rails)
    if (rail < 0 || rail >= nics)
      found.push_back({"lost_rails", fmt::format("names rail {}; hosts have NICs 0 to {}", rail, nics - 1)});
  if (static_cast<int>(faults.lost_rails.size()) >= nics && !faults.lost_rails.empty())
    found.push_back({"lost_rails", "leaves no NIC"});
  const int of_node = nics * std::max(1, cluster.node.gpus / cluster.node.gpus_per_host);
  std::map<std::pair<int, int>, int> gone;  // [node, host]
  for (const NetworkFaults::SlowNic& slow : faults.slow_nics) {
    if (slow.nic >= of_node)
      found.push_back({"slow_nic", fmt::format("names NIC {}; a node has NICs 0 to {}", slow.nic, of_node - 1)});
    else if (slow.speed == 0 && !is_lost(faults, slow.nic % nics))
      ++gone[{slow.node, slow.nic / nics}];
  }
  for (const auto& [host, count] : gone)
    if (count + static_cast<int>(faults.lost_rails.size()) >= nics)
      found.push_back({"slow_nic", fmt::format("leaves a host of node {} no NIC", host.first)});
}

}  // namespace

std::vector<ImpossibleValue> impossible_faults(const Cluster& cluster) {
  std::vector<ImpossibleValue> found;
  check_nics(cluster, found);
  for (const auto& [name, share] : cluster.faults.lost_uplinks) {
    const auto has_uplinks = [&name = name](const FabricTier& tier) { return tier.nodes > 0 && tier.name == name; };
    if (std::ranges::none_of(cluster.tiers, has_uplinks))
      found.push_back({"lost_uplinks", fmt::format("names {}, which is not a tier with uplinks", name)});
  }
  for (const auto& [node, missing] : cluster.faults.missing_gpus)
    if (missing > cluster.node.gpus)
      found.push_back(
          {"missing_gpus", fmt::format("takes {} GPUs of node {}, which has {}", missing, node, cluster.node.gpus)});
  return found;
}

}  // namespace tracecast
