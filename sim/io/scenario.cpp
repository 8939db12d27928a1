#include "sim/io/scenario.hpp"

#include <cmath>

#include <fmt/format.h>

#include "sim/network/rack_use.hpp"
#include "sim/plan/group_spans.hpp"

namespace tracecast {
namespace {

/// The location of `key`, else of the nearest enclosing group; nullptr when the scenario was built by hand.
const KeyLocation* location_of(std::string key, const Scenario& scenario, bool& exact) {
  exact = true;
  while (true) {
    const auto found = scenario.locations.find(key);
    if (found != scenario.locations.end()) return &found->second;
    if (key.empty()) return nullptr;
    exact = false;
    const std::size_t dot = key.rfind('.');
    key.erase(dot == std::string::npos ? 0 : dot);
  }
}

}  // namespace

Error located(Error error, const Scenario& scenario) {
  for (Diagnostic& diagnostic : error.diagnostics) {
    if (!diagnostic.file.empty()) continue;
    bool exact = false;
    const KeyLocation* location = location_of(diagnostic.key, scenario, exact);
    if (location == nullptr) continue;
    diagnostic.file = location->file;
    diagnostic.line = location->line;
    if (exact && diagnostic.value.empty()) diagnostic.value = location->value;
  }
  return error;
}

void use_racks(Cluster& cluster, const Parallel& parallel, int gpus_per_rack) {
  const bool by_rule = gpus_per_rack == 0;
  const NodeSpec whole = whole_racks(cluster.node);
  if (!is_rack(whole) || cluster.world_size < 1 || (by_rule && !cluster.faults.missing_gpus.empty())) return;
  use_gpus_per_rack(cluster.node, by_rule ? gpus_used_per_rack(whole, cluster.max_nodes, cluster.world_size,
                                                               group_spans(parallel, cluster.world_size))
                                          : gpus_per_rack);
}

std::string limit_pcie(NodeSpec& node, const Profile& profile) {
  constexpr double kReached = 0.84;  // 53 of the 63 GB/s of a Gen5 x16 link: docs/references.md#pcie-copies
  constexpr std::int64_t kRounding = 1'000'000'000;
  const Bandwidth board{std::llround(kReached * profile.host_bandwidth)};
  const bool slower = board.bytes_per_second + kRounding < node.pcie.bytes_per_second;
  if (node.link != IntraLink::pcie || profile.host_bandwidth <= 0 || !slower) return "";
  node.pcie = board;
  return fmt::format("PCIe carries {:.1f} GB/s, which is what the board of {} can",
                     static_cast<double>(board.bytes_per_second) * 1e-9, profile.name);
}

}  // namespace tracecast
