/// Reads and writes topologies/<name>.json (docs/formats/topology.md, docs/schema/topology.schema.json).
#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/io/fields.hpp"
#include "sim/io/files.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/scenario_document.hpp"

namespace tracecast {

CollectiveTuning unmeasured_pcie() {
  CollectiveTuning tuning;
  tuning.intra_bandwidth = 0.5;
  tuning.direct_link = 0.42;
  tuning.residual = 0.3;
  return tuning;
}

namespace {

constexpr int kMaxCount = kMostGpus;

/// The group `fabric`.
struct FabricKeys {
  FabricKind kind = FabricKind::fat_tree;
  FabricShape shape;
  std::vector<FabricTier> tiers;
};

const Allowed kCount{.minimum = 1, .maximum = kMaxCount};
const Allowed kRate{.minimum = 0, .above = true, .error = "must be more than 0"};
const Allowed kFactor{.minimum = 0, .maximum = 100, .above = true, .error = "must be more than 0 and at most 100"};
const Allowed kAmount{.minimum = 0, .maximum = 1e6, .error = "must be between 0 and 1000000"};

}  // namespace

#include "sim/io/keys/topology.def"

std::vector<KeyTable> topology_keys() {
  return {{"topology", texts_of<Cluster>()},
          {"topology.node", texts_of<NodeSpec>()},
          {"topology.fabric", texts_of<FabricKeys>()},
          {"topology.tiers", texts_of<FabricTier>()},
          {"topology.collectives", texts_of<CollectiveTuning>()}};
}

namespace {

/// `condition`: when they are needed; without it they have no effect.
void need_only(ObjectReader& reader, bool needed, std::initializer_list<const char*> keys, std::string_view condition) {
  for (const char* key : keys) {
    const bool given = reader.get_node(key) != nullptr;
    if (needed && !given) reader.error(key, "is missing");
    if (!needed && given) reader.error(key, fmt::format("has no effect: it is for {}", condition));
  }
}

bool has_gpu_links(const NodeSpec& node) { return node.link != IntraLink::pcie && node.link != IntraLink::none; }

constexpr const char* kMissingNetwork = "is missing (a machine with \"nodes\": 1 needs none)";

/// one_node: of a machine that has no other, and thus may have no network.
void read_node(ObjectReader& reader, NodeSpec& node, bool one_node) {
  node.gpus_per_host = 0;
  node.nics = 0;
  read_fields(reader, node);
  const bool network = one_node || reader.get_node("nics") != nullptr;
  if (!network) reader.error("nics", kMissingNetwork);
  if (node.gpus_per_host == 0) node.gpus_per_host = node.gpus;
  if (node.gpus % node.gpus_per_host != 0)
    reader.error("gpus_per_host", fmt::format("does not divide node.gpus = {}", node.gpus));
  need_only(reader, has_gpu_links(node), {"gpu_link"}, "GPUs that node.link connects directly");
  if (network) need_only(reader, node.nics > 0, {"nic_rate", "nic_latency"}, "nodes with node.nics above 0");
  if (node.nvls && node.link != IntraLink::nvswitch) reader.error("nvls", "needs node.link = \"nvswitch\"");
  reader.finish();
}

/// A tier without `nodes` holds all nodes: nothing leaves it. The hop latency of a torus is that of its own links.
void refuse_uplinks(const JsonNode& tier, bool torus, const std::string& path, const std::string& file,
                    std::vector<Diagnostic>& errors) {
  for (const char* key : {"oversubscription", "hop_latency"})
    if (const JsonNode* value = tier.find(key); value != nullptr && !(torus && key == std::string_view("hop_latency")))
      errors.push_back({file, value->line, path + "." + key, value->text(),
                        "has no effect: the tier holds all nodes, so that nothing leaves it (give it nodes)"});
}

/// The cables of a group decide its oversubscription, which is what forecasts use.
void read_global_links(ObjectReader& reader, const JsonNode& group, Cluster& cluster) {
  FabricTier& tier = cluster.tiers.front();
  if (cluster.max_nodes == 0)
    return reader.error("global_links", "needs nodes: the machine's groups share the cables of each");
  const int others = ceil_div(cluster.max_nodes, tier.nodes) - 1;
  if (others == 0) return;
  const double nics = static_cast<double>(tier.nodes) * cluster.node.hosts() * cluster.node.nics;
  const double left = std::max(1.0, nics / cluster.shape.global_links / others);
  if (group.find("oversubscription") == nullptr)
    tier.oversubscription = left;
  else if (std::abs(tier.oversubscription / left - 1) > 0.05)
    reader.error("global_links", fmt::format("leaves an oversubscription of {:.4g}, but the group says {:g} (give one)",
                                             left, tier.oversubscription));
}

/// The links of a dragonfly are those of its groups, and between them.
void check_dragonfly(ObjectReader& reader, const JsonNode& tiers, Cluster& cluster) {
  for (std::size_t i = 1; i < cluster.tiers.size(); ++i)
    if (i > 1 || cluster.tiers[i].nodes > 0)
      return reader.error("tiers", fmt::format("tier {} is above the groups of a dragonfly, where all are joined "
                                               "(allowed: one tier with nodes, its group, and one without)",
                                               i));
  if (cluster.shape.global_links == 0) return;
  if (cluster.tiers.empty() || cluster.tiers.front().nodes == 0)
    return reader.error("global_links", "needs a tier with nodes, the group");
  read_global_links(reader, tiers.items.front(), cluster);
}

/// A last tier with uplinks has links above it that join all of its units.
void add_top(Cluster& cluster) {
  if (cluster.fabric == FabricKind::torus || cluster.tiers.empty() || cluster.tiers.back().nodes == 0) return;
  if (cluster.max_nodes > 0 && cluster.tiers.back().nodes >= cluster.max_nodes) return;
  const bool taken = std::ranges::any_of(cluster.tiers, [](const FabricTier& tier) { return tier.name == "top"; });
  cluster.tiers.push_back({taken ? "above top" : "top", 0, 1, {}});
}

void check_names(ObjectReader& reader, const std::vector<FabricTier>& tiers) {
  std::set<std::string> names;
  for (const FabricTier& tier : tiers)
    if (!tier.name.empty() && !names.insert(tier.name).second)
      reader.error("tiers", fmt::format("has two tiers '{}' (perturb.lost_uplinks goes by name)", tier.name));
}

/// Lengths of a torus. The machine has their product as its number of nodes, unless the file gives fewer.
void read_dimensions(ObjectReader& reader, Cluster& cluster) {
  if (reader.get_node("dimensions") == nullptr) return;
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

void read_fabric(ObjectReader& reader, Cluster& cluster, std::vector<Diagnostic>& errors) {
  FabricKeys keys;
  read_fields(reader, keys);
  cluster.fabric = keys.kind;
  cluster.shape = keys.shape;
  cluster.tiers = keys.tiers;
  for (const char* key : {"routers", "global_links"})
    if (reader.get_node(key) != nullptr && keys.kind != FabricKind::dragonfly)
      reader.error(key, "needs fabric.kind = \"dragonfly\"");
  if (keys.shape.switch_ports > 0 && keys.kind != FabricKind::fat_tree && keys.kind != FabricKind::rail_optimized)
    reader.error("switch_ports", "needs fabric.kind = \"fat-tree\" or \"rail-optimized\"");
  read_dimensions(reader, cluster);
  const JsonNode* const tiers = reader.get_node("tiers");
  for (std::size_t i = 0; i < cluster.tiers.size(); ++i) {
    const bool last = i + 1 == cluster.tiers.size();
    const int nodes = cluster.tiers[i].nodes;
    const int below = i == 0 ? 0 : cluster.tiers[i - 1].nodes;
    if (nodes == 0 && last)
      refuse_uplinks(tiers->items[i], cluster.fabric == FabricKind::torus,
                     fmt::format("{}[{}]", reader.dotted("tiers"), i), reader.file(), errors);
    if (nodes == 0 && !last)
      reader.error("tiers", fmt::format("tier {} has no nodes, and only the last may hold all", i));
    if (nodes != 0 && nodes <= below)
      reader.error("tiers", fmt::format("tier {} holds {} nodes, not more than the tier below ({})", i, nodes, below));
  }
  check_names(reader, cluster.tiers);
  add_top(cluster);
  if (cluster.fabric == FabricKind::dragonfly && tiers != nullptr) check_dragonfly(reader, *tiers, cluster);
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
void complete_references(Cluster& cluster, bool gives_link) {
  constexpr Duration kNvlink{1'000'000};
  constexpr Duration kInfiniband{1'500'000};
  const ReferenceLatencies given = std::exchange(cluster.reference, {});
  if (gives_link) cluster.reference.link = given.link.value_or(kNvlink);
  if (cluster.node.nics > 0) cluster.reference.nic = given.nic.value_or(kInfiniband);
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
  const JsonNode* sources = document.root.find("sources");
  if (sources != nullptr && sources->kind == JsonNode::Kind::string) {
    root.get("sources", cluster.source);
    return;
  }
  if (sources == nullptr)
    return root.error("sources",
                      "is missing: where the numbers are from, by key or group (\"sources\": \"assumed\" for all)");
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

Result<Cluster> cluster_of(const JsonDocument& document, std::string name) {
  std::vector<Diagnostic> errors;
  ObjectReader root(document.root, document.file, "", errors);
  Cluster cluster;
  cluster.name = std::move(name);
  read_fields(root, cluster);
  const bool one_node = cluster.max_nodes == 1;
  if (auto node = root.get_object("node")) read_node(*node, cluster.node, one_node);
  if (document.root.find("collectives") == nullptr && cluster.node.link == IntraLink::pcie)
    cluster.tuning = unmeasured_pcie();
  if (auto fabric = root.get_object("fabric")) read_fabric(*fabric, cluster, errors);
  if (document.root.find("fabric") == nullptr && !one_node) root.error("fabric", kMissingNetwork);
  if (document.root.find("fabric") == nullptr && one_node) cluster.fabric = FabricKind::none;
  const JsonNode* const node = document.root.find("node");
  complete_references(cluster, node != nullptr && node->find("link_latency") != nullptr);
  refuse_impossible(document, cluster, errors);
  read_sources(root, document, cluster, errors);
  root.finish();
  if (!errors.empty()) return tl::unexpected(in_file_order(std::move(errors)));
  return cluster;
}

}  // namespace

namespace {

/// Without what the reader refuses for such a node, and with what it needs.
JsonNode written(NodeSpec node) {
  if (!has_gpu_links(node)) node.gpu_link = {};
  if (node.nics == 0) node.nic_rate = {}, node.nic_latency = {};
  JsonNode out = node_of(node);
  if (node.nics > 0 && node.nic_latency == Duration{}) member_of(out, "nic_latency") = node_of(std::string("0 us"));
  return out;
}

/// A file that does not begin as JSON is often a description of another tool.
Result<JsonDocument> read_own_json(const std::filesystem::path& path) {
  Result<JsonDocument> document = read_json(path);
  if (document) return document;
  std::ifstream stream(path);
  char first = '\0';
  const bool text =
      (stream >> first) && (first == '<' || first == '#' || std::isalpha(static_cast<unsigned char>(first)) != 0);
  if (!text) return document;
  return fail(
      {path.string(), 0, "", "",
       fmt::format("is not a topology of Tracecast (JSON); for a description of another tool run tracecast import "
                   "topology {} -o machine.json first",
                   path.string())});
}

}  // namespace

Result<Cluster> read_topology(const std::filesystem::path& path) {
  const Result<JsonDocument> document = read_own_json(path);
  if (!document) return tl::unexpected(document.error());
  return cluster_of(*document, path.stem().string());
}

Result<Cluster> read_topology(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  Result<JsonDocument> document = read_own_json(path);
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

std::string to_json(const Cluster& cluster, const std::string& description) {
  JsonNode root = write_fields(cluster);
  member_of(root, "description") = node_of(description);
  member_of(root, "node") = written(cluster.node);
  member_of(root, "fabric") = node_of(FabricKeys{cluster.fabric, cluster.shape, cluster.tiers});
  if (cluster.node.link == IntraLink::pcie && cluster.tuning == CollectiveTuning{})  // else unmeasured_pcie() is read
    member_of(member_of(root, "collectives"), "data") = node_of(std::string());
  member_of(root, "sources") = node_of(cluster.source);
  return indented_json(root) + "\n";
}

JsonNode json_of(const CollectiveTuning& tuning) { return write_fields(tuning); }

}  // namespace tracecast
