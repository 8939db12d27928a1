/// Reads topologies/<name>.json (docs/formats/topology.md, docs/schema/topology.schema.json).
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/scenario_document.hpp"

namespace tracecast {
namespace {

constexpr int kMaxCount = 1 << 24;

void require_positive(ObjectReader& reader, const std::string& key, Bandwidth rate) {
  if (rate.bytes_per_second <= 0) reader.error(key, "must be more than 0");
}

void read_network(ObjectReader& reader, NodeSpec& node) {
  reader.require("nics", node.nics, 0, kMaxCount);
  if (node.nics == 0) return;
  if (reader.require("nic_rate", node.nic_rate)) require_positive(reader, "nic_rate", node.nic_rate);
  reader.require("nic_latency", node.nic_latency);
}

void read_node(ObjectReader& reader, NodeSpec& node) {
  reader.require("gpus", node.gpus, 1, kMaxCount);
  node.gpus_per_host = node.gpus;
  reader.get("gpus_per_host", node.gpus_per_host, 1, kMaxCount);
  if (node.gpus % node.gpus_per_host != 0)
    reader.error("gpus_per_host", fmt::format("does not divide node.gpus = {}", node.gpus));
  reader.require("link", node.link, named_values<IntraLink>());
  const bool own_link = node.link != IntraLink::pcie && node.link != IntraLink::none;
  if (own_link && reader.require("gpu_link", node.gpu_link)) require_positive(reader, "gpu_link", node.gpu_link);
  reader.get("link_latency", node.link_latency);
  reader.get("nvls", node.nvls);
  reader.get("nvswitches", node.nvswitches, 1, kMaxCount);
  if (node.nvls && node.link != IntraLink::nvswitch) reader.error("nvls", "needs node.link = \"nvswitch\"");
  read_network(reader, node);
  if (reader.require("pcie", node.pcie)) require_positive(reader, "pcie", node.pcie);
  reader.require("cpu", node.cpu, named_values<CpuKind>());
  reader.finish();
}

FabricTier read_tier(const JsonNode& node, const std::string& file, const std::string& path,
                     std::vector<Diagnostic>& errors) {
  ObjectReader reader(node, file, path, errors);
  FabricTier tier;
  reader.require("name", tier.name);
  reader.get("nodes", tier.nodes, 1, kMaxCount);
  reader.get("oversubscription", tier.oversubscription);
  if (tier.oversubscription < 1) reader.error("oversubscription", "must be at least 1 (downlink / uplink bandwidth)");
  reader.get("hop_latency", tier.hop_latency);
  reader.finish();
  return tier;
}

/// A tier without `nodes` holds all nodes: nothing leaves it.
void refuse_uplinks(const JsonNode& tier, const std::string& path, const std::string& file,
                    std::vector<Diagnostic>& errors) {
  for (const char* key : {"oversubscription", "hop_latency"})
    if (const JsonNode* value = tier.find(key))
      errors.push_back({file, value->line, path + "." + key, value->text(),
                        "has no effect: the tier holds all nodes, so that nothing leaves it (give it nodes)"});
}

/// Lengths of a torus. The machine has their product as its number of nodes, unless the file gives fewer.
void read_dimensions(ObjectReader& reader, Cluster& cluster) {
  if (!reader.get("dimensions", cluster.shape.dimensions)) return;
  std::int64_t routers = 1;
  bool good = !cluster.shape.dimensions.empty() && cluster.shape.dimensions.size() <= 8;
  for (const int length : cluster.shape.dimensions) {
    good = good && length >= 1 && length <= kMaxCount && routers * length <= kMaxCount;
    if (good) routers *= length;
  }
  if (!good)
    reader.error("dimensions", fmt::format("must be 1 to 8 lengths, at most {} routers in all", kMaxCount));
  else if (cluster.fabric != FabricKind::torus)
    reader.error("dimensions", "needs fabric.kind = \"torus\"");
  else if (routers < cluster.max_nodes)
    reader.error("dimensions", fmt::format("makes {} routers, fewer than nodes = {}", routers, cluster.max_nodes));
  else if (cluster.max_nodes == 0)
    cluster.max_nodes = static_cast<int>(routers);
}

void read_shape(ObjectReader& reader, Cluster& cluster) {
  const bool dragonfly = cluster.fabric == FabricKind::dragonfly;
  reader.get("switch_ports", cluster.shape.switch_ports, 2, kMaxCount);
  for (const auto& [key, value] :
       {std::pair{"routers", &cluster.shape.routers}, std::pair{"global_links", &cluster.shape.global_links}})
    if (reader.get(key, *value, 1, kMaxCount) && !dragonfly) reader.error(key, "needs fabric.kind = \"dragonfly\"");
  read_dimensions(reader, cluster);
}

void read_fabric(ObjectReader& reader, Cluster& cluster, std::vector<Diagnostic>& errors) {
  reader.require("kind", cluster.fabric, named_values<FabricKind>());
  read_shape(reader, cluster);
  const JsonNode* tiers = reader.get_node("tiers");
  if (tiers != nullptr && tiers->kind != JsonNode::Kind::array) {
    reader.error("tiers", "must be a list of tiers, from the nodes up");
    tiers = nullptr;
  }
  for (std::size_t i = 0; tiers != nullptr && i < tiers->items.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", reader.dotted("tiers"), i);
    cluster.tiers.push_back(read_tier(tiers->items[i], reader.file(), path, errors));
    const bool last = i + 1 == tiers->items.size();
    const int nodes = cluster.tiers.back().nodes;
    const int below = i == 0 ? 0 : cluster.tiers[i - 1].nodes;
    if (nodes == 0 && last && cluster.fabric != FabricKind::torus)
      refuse_uplinks(tiers->items[i], path, reader.file(), errors);
    if (nodes == 0 && !last)
      reader.error("tiers", fmt::format("tier {} has no nodes, and only the last may hold all", i));
    if (nodes != 0 && nodes <= below)
      reader.error("tiers", fmt::format("tier {} holds {} nodes, not more than the tier below ({})", i, nodes, below));
  }
  reader.finish();
}

void read_factor(ObjectReader& reader, const std::string& key, double& value) {
  if (reader.get(key, value) && !(value > 0 && value <= 100)) reader.error(key, "must be more than 0 and at most 100");
}

void read_amount(ObjectReader& reader, const std::string& key, double& value) {
  if (reader.get(key, value) && !(value >= 0 && value <= 1e6)) reader.error(key, "must be between 0 and 1000000");
}

void read_collectives(ObjectReader& reader, CollectiveTuning& tuning) {
  read_factor(reader, "intra_bandwidth", tuning.intra_bandwidth);
  read_factor(reader, "nvls_bandwidth", tuning.nvls_bandwidth);
  read_factor(reader, "net_bandwidth", tuning.net_bandwidth);
  read_factor(reader, "direct_bandwidth", tuning.direct_bandwidth);
  read_factor(reader, "direct_link", tuning.direct_link);
  read_factor(reader, "mid_size", tuning.mid_size);
  reader.get("mid_limit", tuning.mid_limit);
  read_factor(reader, "net_mid_size", tuning.net_mid_size);
  reader.get("net_mid_limit", tuning.net_mid_limit);
  read_factor(reader, "base_latency", tuning.base_latency);
  read_factor(reader, "hop_latency", tuning.hop_latency);
  read_factor(reader, "net_hop_latency", tuning.net_hop_latency);
  read_factor(reader, "net_ll_latency", tuning.net_ll_latency);
  read_amount(reader, "net_latency_us", tuning.net_latency_us);
  read_amount(reader, "ring_step_us", tuning.ring_step_us);
  reader.get("copy_bandwidth", tuning.copy_bandwidth);
  reader.get("ll128", tuning.ll128);
  reader.get("pat", tuning.pat);
  reader.get("sharp", tuning.sharp);
  reader.require("data", tuning.data);
  read_factor(reader, "residual", tuning.residual);
  reader.finish();
}

/// At the line of the value.
void refuse_impossible(const JsonDocument& document, const Cluster& cluster, std::vector<Diagnostic>& errors) {
  for (const ImpossibleValue& each : impossible_values(cluster)) {
    const JsonNode* at = &document.root;
    for (std::size_t begin = 0; at != nullptr && begin < each.key.size();) {
      const std::size_t end = std::min(each.key.find('.', begin), each.key.size());
      at = at->find(each.key.substr(begin, end - begin));
      begin = end + 1;
    }
    if (at != nullptr) errors.push_back({document.file, at->line, each.key, at->text(), each.message});
  }
}

/// Default: NVLink and InfiniBand, which NCCL's constants are for (docs/references.md#link-latencies).
void read_references(ObjectReader& root, Cluster& cluster) {
  constexpr Duration kNvlink{1'000'000};
  constexpr Duration kInfiniband{1'500'000};
  Duration link = kNvlink;
  Duration nic = kInfiniband;
  if (auto reader = root.get_object("measured_at")) {
    reader->get("link_latency", link);
    reader->get("nic_latency", nic);
    reader->finish();
  }
  if (cluster.node.link_latency != Duration{}) cluster.reference.link = link;
  if (cluster.node.nics > 0) cluster.reference.nic = nic;
}

void read_storage(ObjectReader& reader, StorageSpec& storage) {
  if (reader.require("write", storage.write)) require_positive(reader, "write", storage.write);
  if (reader.require("read", storage.read)) require_positive(reader, "read", storage.read);
  reader.finish();
}

bool holds_numbers(const JsonNode& node) {
  if (node.kind == JsonNode::Kind::integer || node.kind == JsonNode::Kind::number) return true;
  return node.kind == JsonNode::Kind::string && !node.string.empty() && node.string[0] >= '0' && node.string[0] <= '9';
}

/// State shared by the readers below.
struct SourceCheck {
  const std::set<std::string>& sources;
  std::string file;
  std::vector<Diagnostic>& errors;

  /// Every number has a source: an entry for its key or for a group that it is in.
  void check(const JsonNode& node, const std::string& path) const {
    if (sources.count(path) != 0) return;
    if (holds_numbers(node)) {
      const std::string message = "has no source (name one in 'sources', for this key or the group it is in)";
      errors.push_back({file, node.line, path, node.text(), message});
    }
    for (const auto& [key, child] : node.members) {
      if (path.empty() && (key == "sources" || key == "description" || key == "gpu")) continue;
      check(child, path.empty() ? key : path + "." + key);
    }
    for (const JsonNode& child : node.items) check(child, path);
  }
};

/// The sources by dotted key; one line each in Cluster::source.
void read_sources(ObjectReader& root, const JsonDocument& document, Cluster& cluster, std::vector<Diagnostic>& errors) {
  std::set<std::string> keys;
  if (auto reader = root.get_object("sources")) {
    for (const auto& [key, text] : document.root.find("sources")->members) {
      std::string source;
      keys.insert(key);
      if (reader->get(key, source)) cluster.source += (cluster.source.empty() ? "" : "\n") + key + ": " + source;
    }
    reader->finish();
  }
  SourceCheck{keys, document.file, errors}.check(document.root, "");
}

}  // namespace

namespace {

Result<Cluster> cluster_of(const JsonDocument& document, std::string name) {
  std::vector<Diagnostic> errors;
  ObjectReader root(document.root, document.file, "", errors);
  Cluster cluster;
  cluster.name = std::move(name);
  std::string description;
  root.require("description", description);
  root.require("gpu", cluster.gpu);
  root.get("nodes", cluster.max_nodes, 1, kMaxCount);
  if (root.get_node("node") == nullptr) root.error("node", "is missing");
  if (auto node = root.get_object("node")) read_node(*node, cluster.node);
  if (root.get_node("fabric") == nullptr) root.error("fabric", "is missing");
  if (auto fabric = root.get_object("fabric")) read_fabric(*fabric, cluster, errors);
  if (auto collectives = root.get_object("collectives")) read_collectives(*collectives, cluster.tuning);
  read_references(root, cluster);
  refuse_impossible(document, cluster, errors);
  if (auto storage = root.get_object("storage")) read_storage(*storage, cluster.storage);
  read_sources(root, document, cluster, errors);
  root.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return cluster;
}

}  // namespace

Result<Cluster> read_topology(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  return cluster_of(*document, path.stem().string());
}

Result<Cluster> read_topology(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  Result<JsonDocument> document = read_json(path);
  if (!document) return tl::unexpected(document.error());
  std::vector<Diagnostic> errors;
  apply_overrides(document->root, overrides, errors);
  if (!errors.empty()) return tl::unexpected(Error{std::move(errors)});
  return cluster_of(*document, path.stem().string());
}

Result<Cluster> read_topology_text(std::string text, const std::string& file) {
  const Result<JsonDocument> document = parse_json(std::move(text), file);
  if (!document) return tl::unexpected(document.error());
  return cluster_of(*document, std::filesystem::path(file).stem().string());
}

}  // namespace tracecast
