#include "sim/import/imported_topology.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

/// As short as it can be and exact: "450 GB/s", "6.8 GB/s", "1234567 B/s".
std::string exact(Bandwidth rate) {
  const std::int64_t bytes = rate.bytes_per_second;
  if (bytes % 1'000'000 == 0) return fmt::format("{} GB/s", static_cast<double>(bytes) / 1e9);
  return fmt::format("{} B/s", bytes);
}

std::string exact(Duration time) {
  if (time.picoseconds % 1'000 == 0) return fmt::format("{} us", static_cast<double>(time.picoseconds) / 1e6);
  return fmt::format("{} ps", time.picoseconds);
}

Json node_json(const NodeSpec& node) {
  Json out = {{"gpus", node.gpus}};
  if (node.gpus_per_host != node.gpus) out["gpus_per_host"] = node.gpus_per_host;
  out["link"] = to_string(node.link);
  if (node.link != IntraLink::pcie && node.link != IntraLink::none) out["gpu_link"] = exact(node.gpu_link);
  if (node.link_latency.picoseconds > 0) out["link_latency"] = exact(node.link_latency);
  if (node.nvls) out["nvls"] = true;
  if (node.nvswitches != 1) out["nvswitches"] = node.nvswitches;
  out["nics"] = node.nics;
  if (node.nics > 0) {
    out["nic_rate"] = exact(node.nic_rate);
    out["nic_latency"] = exact(node.nic_latency);
  }
  out["pcie"] = exact(node.pcie);
  out["cpu"] = to_string(node.cpu);
  return out;
}

Json fabric_json(const Cluster& cluster) {
  Json out = {{"kind", to_string(cluster.fabric)}};
  if (cluster.shape.switch_ports > 0) out["switch_ports"] = cluster.shape.switch_ports;
  if (cluster.shape.routers > 0) out["routers"] = cluster.shape.routers;
  if (cluster.shape.global_links > 0) out["global_links"] = cluster.shape.global_links;
  if (!cluster.shape.dimensions.empty()) out["dimensions"] = cluster.shape.dimensions;
  for (const FabricTier& tier : cluster.tiers) {
    Json entry = {{"name", tier.name}};
    if (tier.nodes > 0) entry["nodes"] = tier.nodes;
    if (tier.oversubscription != 1) entry["oversubscription"] = tier.oversubscription;
    if (tier.hop_latency.picoseconds > 0) entry["hop_latency"] = exact(tier.hop_latency);
    out["tiers"].push_back(entry);
  }
  return out;
}

std::string file_text(const Cluster& cluster, const std::string& description, const Json& sources) {
  Json out = {{"description", description}, {"gpu", cluster.gpu}};
  if (cluster.max_nodes > 0) out["nodes"] = cluster.max_nodes;
  out["node"] = node_json(cluster.node);
  out["fabric"] = fabric_json(cluster);
  out["sources"] = sources;
  if (cluster.max_nodes > 0) out["sources"]["nodes"] = out["sources"]["node"];
  return json_file(out);
}

}  // namespace

std::string to_topology_json(const ImportedTopology& imported, const std::string& origin) {
  std::string source = fmt::format("{} {}", imported.format, origin);
  for (const std::string& note : imported.notes) source += "; " + note;
  return file_text(imported.cluster, fmt::format("{}, read from {}", imported.cluster.name, imported.format),
                   {{"node", source}, {"fabric", source}});
}

std::string to_topology_json(const Cluster& cluster, const std::string& description, const std::string& source) {
  return file_text(cluster, description, {{"node", source}, {"fabric", source}});
}

}  // namespace tracecast
