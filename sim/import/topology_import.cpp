#include "sim/import/topology_import.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/io/files.hpp"

namespace tracecast {
namespace {

/// The first thing in a text, XML declarations and comments skipped.
std::string_view first_tag(std::string_view text) {
  while (true) {
    const std::size_t at = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (at == std::string_view::npos) return "";
    text.remove_prefix(at);
    std::string_view end;
    if (text.starts_with("<!--"))
      end = "-->";
    else if (text.starts_with("<?") || text.starts_with("<!"))
      end = ">";
    else
      return text;
    const std::size_t after = text.find(end);
    if (after == std::string_view::npos) return text;
    text.remove_prefix(after + end.size());
  }
}

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_nccl_topology(std::string_view text) { return first_tag(text).starts_with("<system"); }
bool is_nccl_graph(std::string_view text) { return first_tag(text).starts_with("<graphs"); }
bool is_simgrid(std::string_view text) { return first_tag(text).starts_with("<platform"); }
bool is_iblinkinfo(std::string_view text) { return holds(text, "==(") && holds(text, ")==>"); }
bool is_ibnetdiscover(std::string_view text) {
  return holds(text, "switchguid=") || holds(text, "caguid=") ||
         ((text.starts_with("CA ") || text.starts_with("SW ")) && holds(text, " 0x"));
}
bool is_astra_sim(std::string_view text) {
  return holds(text, "npus_count") || holds(text, "\"scheduling-policy\"") || holds(text, "\"logical-dims\"") ||
         holds(text, "\"memory-type\"");
}
/// Five counts and the name of a GPU.
bool is_simai(std::string_view text) {
  const std::string_view line = text.substr(0, std::min<std::size_t>(text.find('\n'), 80));
  const std::size_t name = line.find_first_not_of("0123456789 \t");
  return name != std::string_view::npos &&
         std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(name), ' ') == 5;
}
bool is_nvidia_smi(std::string_view text) { return holds(text, "GPU0") && holds(text, " X "); }

constexpr TopologyFormat kTopologyFormats[] = {
    {"nccl-topology", "NCCL topology XML", is_nccl_topology, read_nccl_topology},
    {"nccl-graph", "NCCL graph XML", is_nccl_graph, read_nccl_graph},
    {"simgrid", "SimGrid platform", is_simgrid, read_simgrid_platform},
    {"iblinkinfo", "InfiniBand fabric of iblinkinfo", is_iblinkinfo, read_infiniband_fabric},
    {"ibnetdiscover", "InfiniBand fabric of ibnetdiscover", is_ibnetdiscover, read_infiniband_fabric},
    {"astra-sim", "ASTRA-sim network", is_astra_sim, read_astra_sim_network},
    {"simai-topology", "SimAI topology", is_simai, read_simai_topology},
    {"nvidia-smi", "nvidia-smi topo -m", is_nvidia_smi, read_nvidia_smi_topology},
};

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

}  // namespace

std::span<const TopologyFormat> topology_formats() { return kTopologyFormats; }

Result<ImportedTopology> import_topology(std::string_view text, const std::string& file, std::string_view format) {
  std::string names;
  for (const TopologyFormat& candidate : kTopologyFormats) {
    names += (names.empty() ? "" : " ") + std::string(candidate.name);
    if (format.empty() ? !candidate.matches(text) : candidate.name != format) continue;
    Result<ImportedTopology> imported = candidate.read(text, file);
    if (imported) imported->cluster.name = std::filesystem::path(file).stem().string();
    return imported;
  }
  if (!format.empty())
    return fail({"", 0, "format", std::string(format), fmt::format("is no format of topologies (allowed: {})", names)});
  return fail({file, 0, "", "", fmt::format("is no topology, and none of {}", names)});
}

Result<Cluster> read_any_topology(const std::filesystem::path& path, std::vector<std::string>* notes) {
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const std::size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (!stream.is_open() || first == std::string::npos || text[first] == '{' || path.extension() == ".json")
    return read_topology(path);
  Result<ImportedTopology> imported = import_topology(text, path.string());
  if (!imported) return tl::unexpected(imported.error());
  if (notes != nullptr) *notes = imported->notes;
  return std::move(imported->cluster);
}

namespace {

std::string file_text(const Cluster& cluster, const std::string& description, const Json& sources) {
  Json out = {{"description", description}, {"gpu", cluster.gpu}};
  if (cluster.max_nodes > 0) out["nodes"] = cluster.max_nodes;
  out["node"] = node_json(cluster.node);
  out["fabric"] = fabric_json(cluster);
  out["sources"] = sources;
  if (cluster.max_nodes > 0) out["sources"]["nodes"] = out["sources"]["node"];
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
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
