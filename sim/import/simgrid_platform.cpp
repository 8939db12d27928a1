/// SimGrid platforms (DTD 4.1): a <cluster> becomes a topology whose nodes are its hosts; a network of single hosts, links and
/// routes has no regular structure and is refused, unless export_simgrid wrote it.
/// Source: docs/references.md#format-simgrid
#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/possible_topology.hpp"
#include "sim/import/recognise.hpp"
#include "sim/import/simgrid_export.hpp"
#include "sim/import/xml_lines.hpp"
#include "sim/io/files.hpp"

namespace tracecast {
namespace {

constexpr int kDeepest = 64;
constexpr std::int64_t kMaxHosts = 1 << 22;
constexpr int kMaxCables = 4096;
constexpr Duration kSlowest{1'000'000'000'000};

/// "125MBps", "1Gbps" as we write them; a bare number is bytes per second there.
Result<Bandwidth> bandwidth_of(std::string text) {
  if (!text.empty() && text.back() >= '0' && text.back() <= '9') text += "Bps";
  if (text.ends_with("ps")) text.replace(text.size() - 2, 2, "/s");
  return parse_bandwidth(text);
}

Result<Duration> latency_of(std::string text) {
  if (!text.empty() && ((text.back() >= '0' && text.back() <= '9') || text.back() == '.')) text += "s";
  return parse_duration(text);
}

/// Whole numbers from 1 to 2^20 in a list; empty: not such a list.
std::vector<int> numbers_of(std::string_view text, char separator) {
  std::vector<int> numbers;
  for (const std::string_view part : split(text, separator)) {
    const std::optional<int> number = parse_number<int>(trim(part));
    if (!number || *number < 1 || *number > (1 << 20)) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

class Reader {
 public:
  Reader(const XmlFile& xml, std::string file) : xml_(xml), file_(std::move(file)) {}

  Result<ImportedTopology> read() {
    const std::string_view version = xml_.root().attribute("version").value();
    if (!version.starts_with("4"))
      return xml_.fail_at(xml_.root(), "platform.version", std::string(version), "is not read (allowed: 4, 4.1)");
    if (const auto ok = count(xml_.root(), 0); !ok) return tl::unexpected(ok.error());
    imported_.format = "SimGrid platform";
    imported_.found = {
        {"hosts", hosts_}, {"routers", routers_}, {"links", links_}, {"routes", routes_}, {"clusters", clusters_}};
    if (!written_.empty()) return own_export();
    if (clusters_ == 0)
      return xml_.fail_at(
          first_, "", "",
          fmt::format("is a network of {} hosts and {} links with routes of its own; a topology needs a <cluster>",
                      hosts_, links_));
    if (clusters_ > 1 || hosts_ > 0)
      return xml_.fail_at(cluster_, "", "", "is not the only thing in the platform; a topology is one <cluster>");
    return read_cluster();
  }

 private:
  Result<void> count(const pugi::xml_node& parent, int depth) {
    if (depth > kDeepest) return xml_.fail_at(parent, "", "", "zones are nested too deeply");
    for (const pugi::xml_node child : parent.children()) {
      const std::string_view name = child.name();
      const bool zone = name == "zone" || name == "AS";  // the same in version 4.0
      if (name == "host" || zone) first_ = first_ ? first_ : child;
      hosts_ += name == "host" ? 1 : 0;
      routers_ += name == "router" ? 1 : 0;
      links_ += name == "link" ? 1 : 0;
      routes_ += name == "route" ? 1 : 0;
      if (name == "cluster") {
        ++clusters_;
        cluster_ = child;
      }
      if (name == "prop" && std::string_view(child.attribute("id").value()) == kSimgridProperty)
        written_ = child.attribute("value").value();
      if (name == "link") {
        if (const auto rate = rate_of(child, "bandwidth"); !rate) return tl::unexpected(rate.error());
        if (const auto time = time_of(child, "latency"); !time) return tl::unexpected(time.error());
      }
      if (zone)
        if (const auto ok = count(child, depth + 1); !ok) return ok;
    }
    return {};
  }

  Result<Bandwidth> rate_of(const pugi::xml_node& node, const char* attribute) const {
    const std::string text = node.attribute(attribute).value();
    const Result<Bandwidth> rate = bandwidth_of(text);
    const std::string key = fmt::format("{}.{}", node.name(), attribute);
    if (!rate) return xml_.fail_at(node, key, text, rate.error().diagnostics.front().message);
    if (rate->bytes_per_second == 0) return xml_.fail_at(node, key, text, "must be more than 0");
    return rate;
  }

  Result<Duration> time_of(const pugi::xml_node& node, const char* attribute) const {
    const std::string text = node.attribute(attribute).value();
    if (text.empty()) return Duration{};
    const Result<Duration> time = latency_of(text);
    const std::string key = fmt::format("{}.{}", node.name(), attribute);
    if (!time) return xml_.fail_at(node, key, text, time.error().diagnostics.front().message);
    if (*time > kSlowest) return xml_.fail_at(node, key, text, "must be at most a second");
    return time;
  }

  /// The topology that was written beside the links.
  Result<ImportedTopology> own_export() {
    Result<Cluster> cluster = read_topology_text(written_, file_);
    if (!cluster) return tl::unexpected(cluster.error());
    imported_.cluster = std::move(*cluster);
    return std::move(imported_);
  }

  /// "0-99", "0-3,8,10-12".
  Result<std::int64_t> radical() const {
    const std::string text = cluster_.attribute("radical").value();
    std::int64_t sum = 0;
    for (const std::string_view part : split(text, ',')) {
      const std::vector<std::string_view> ends = split(part, '-');
      const auto low = parse_number<std::int64_t>(trim(ends.front()));
      const auto high = parse_number<std::int64_t>(trim(ends.back()));
      if (!low || !high || ends.size() > 2 || *low < 0 || *high < *low || *high >= kMaxHosts)
        return xml_.fail_at(cluster_, "cluster.radical", text, "must be ranges of numbers such as 0-99");
      sum += *high - *low + 1;
      if (sum > kMaxHosts)
        return xml_.fail_at(cluster_, "cluster.radical", text, fmt::format("has more than {} hosts", kMaxHosts));
    }
    return sum;
  }

  /// What a link of `rate` carries in one direction while the other has as much to carry.
  Result<Bandwidth> rate_of_direction(Bandwidth rate) {
    const auto halved = [this](Bandwidth of, const char* what) {
      imported_.notes.push_back(fmt::format("{}: both directions share it, half is taken for each", what));
      return Bandwidth{std::max<std::int64_t>(1, of.bytes_per_second / 2)};
    };
    const std::string policy = cluster_.attribute("sharing_policy").value();
    if (policy == "SHARED")
      rate = halved(rate, "sharing_policy SHARED");
    else if (!policy.empty() && policy != "SPLITDUPLEX" && policy != "FULLDUPLEX")
      return xml_.fail_at(cluster_, "cluster.sharing_policy", policy,
                          "is not a link of a machine (allowed: SPLITDUPLEX FULLDUPLEX SHARED)");
    if (std::string_view(cluster_.attribute("limiter_link").value()).empty()) return rate;
    const auto limit = rate_of(cluster_, "limiter_link");
    if (!limit) return tl::unexpected(limit.error());
    return limit->bytes_per_second / 2 < rate.bytes_per_second ? halved(*limit, "limiter_link") : rate;
  }

  Result<ImportedTopology> read_cluster() {
    const auto hosts = radical();
    if (!hosts) return tl::unexpected(hosts.error());
    const auto rate = rate_of(cluster_, "bw");
    if (!rate) return tl::unexpected(rate.error());
    const auto latency = time_of(cluster_, "lat");
    if (!latency) return tl::unexpected(latency.error());
    const auto shared = rate_of_direction(*rate);
    if (!shared) return tl::unexpected(shared.error());
    NodeSpec& node = imported_.cluster.node;
    node.gpus = node.gpus_per_host = 1;
    node.link = IntraLink::none;
    node.nics = 1;
    node.nic_rate = node.pcie = *shared;
    node.nic_latency = *latency * 2;
    node.cpu = CpuKind::intel;
    imported_.cluster.gpu = "h100";
    imported_.cluster.max_nodes = static_cast<int>(*hosts);
    imported_.found.emplace_back("nodes", *hosts);
    imported_.notes.insert(imported_.notes.begin(),
                           "a host is taken as a node of one h100 and an intel CPU with PCIe as fast as its link");
    const std::string topology = cluster_.attribute("topology").value();
    const std::string parameters = cluster_.attribute("topo_parameters").value();
    Result<void> ok;
    if (topology.empty() || topology == "FLAT")
      ok = flat();
    else if (topology == "FAT_TREE")
      ok = fat_tree(parameters, *latency);
    else if (topology == "TORUS")
      ok = torus(parameters, *latency);
    else if (topology == "DRAGONFLY")
      ok = dragonfly(parameters, *latency);
    else
      return xml_.fail_at(cluster_, "cluster.topology", topology,
                          "unknown topology (allowed: FLAT FAT_TREE TORUS DRAGONFLY)");
    if (!ok) return tl::unexpected(ok.error());
    return std::move(imported_);
  }

  Result<void> flat() {
    imported_.cluster.fabric = FabricKind::fat_tree;
    imported_.cluster.tiers = {{"cluster", 0, 1, {}}};
    const auto latency = time_of(cluster_, "bb_lat");
    if (!latency) return tl::unexpected(latency.error());
    NodeSpec& node = imported_.cluster.node;
    node.nic_latency = node.nic_latency + *latency;
    if (std::string_view(cluster_.attribute("bb_bw").value()).empty()) return {};
    const auto rate = rate_of(cluster_, "bb_bw");
    if (!rate) return tl::unexpected(rate.error());
    if (std::string_view(cluster_.attribute("bb_sharing_policy").value()) == "FATPIPE")
      node.nic_rate = std::min(node.nic_rate, *rate);  // of each message, however many there are
    else
      imported_.notes.push_back(fmt::format("the backbone of {} that all hosts share is left out", to_text(*rate)));
    return {};
  }

  tl::unexpected<Error> bad_parameters(const std::string& text, const char* shape) const {
    return xml_.fail_at(cluster_, "cluster.topo_parameters", text, fmt::format("must be {}", shape));
  }

  Result<void> same_number(std::int64_t hosts, const std::string& text) const {
    if (hosts == imported_.cluster.max_nodes) return {};
    return xml_.fail_at(cluster_, "cluster.topo_parameters", text,
                        fmt::format("makes {} hosts, but radical has {}", hosts, imported_.cluster.max_nodes));
  }

  static std::int64_t product(const std::vector<int>& numbers, std::size_t count) {
    std::int64_t result = 1;
    for (std::size_t i = 0; i < count && result <= kMaxHosts; ++i) result *= numbers[i];
    return result;
  }

  /// levels; children of a switch of each; parents of each; cables of each pair.
  Result<void> fat_tree(const std::string& text, Duration latency) {
    const std::vector<std::string_view> parts = split(text, ';');
    const char* shape = "levels;children;parents;cables, such as 2;4,4;1,2;1,2";
    if (parts.size() != 4) return bad_parameters(text, shape);
    const std::vector<int> levels = numbers_of(parts[0], ',');
    const std::vector<int> children = numbers_of(parts[1], ',');
    const std::vector<int> parents = numbers_of(parts[2], ',');
    const std::vector<int> cables = numbers_of(parts[3], ',');
    if (levels.size() != 1 || levels[0] > 8) return bad_parameters(text, shape);
    const auto count = static_cast<std::size_t>(levels[0]);
    if (children.size() != count || parents.size() != count || cables.size() != count)
      return bad_parameters(text, shape);
    for (const int number : parents)
      if (number > kMaxCables) return bad_parameters(text, shape);
    for (const int number : cables)
      if (number > kMaxCables) return bad_parameters(text, shape);
    if (const auto ok = same_number(product(children, count), text); !ok) return ok;
    Cluster& cluster = imported_.cluster;
    cluster.fabric = FabricKind::fat_tree;
    cluster.node.nics = parents[0] * cables[0];
    double switches = parents[0];  // of a unit
    double down = static_cast<double>(children[0]) * cluster.node.nics;
    for (std::size_t i = 0; i < count; ++i) {
      FabricTier tier{fmt::format("level{}", i + 1), 0, 1, latency * 2};
      if (i + 1 < count) {
        tier.nodes = static_cast<int>(product(children, i + 1));
        const double up = switches * parents[i + 1] * cables[i + 1];
        tier.oversubscription = std::max(1.0, down / up);
        switches *= parents[i + 1];
        down = up * children[i + 1];
      } else {
        tier.hop_latency = {};
      }
      if (i == 0 || tier.nodes == 0 || tier.nodes > cluster.tiers.back().nodes) cluster.tiers.push_back(tier);
    }
    return {};
  }

  Result<void> torus(const std::string& text, Duration latency) {
    const std::vector<int> lengths = numbers_of(text, ',');
    if (lengths.empty() || lengths.size() > 8)
      return bad_parameters(text, "lengths of at most 8 dimensions, such as 3,2,2");
    if (const auto ok = same_number(product(lengths, lengths.size()), text); !ok) return ok;
    Cluster& cluster = imported_.cluster;
    cluster.fabric = FabricKind::torus;
    cluster.shape.dimensions.assign(lengths.rbegin(), lengths.rend());  // SimGrid numbers the first one fastest
    cluster.node.nic_latency = {};                                      // hosts are the routers
    cluster.tiers = {{"torus", 0, 1, latency}};
    return {};
  }

  /// groups,links;chassis,links;routers,links;nodes
  Result<void> dragonfly(const std::string& text, Duration latency) {
    std::vector<int> numbers;
    for (const std::string_view part : split(text, ';'))
      for (const int number : numbers_of(part, ',')) numbers.push_back(number);
    if (numbers.size() != 7)
      return bad_parameters(text, "groups,links;chassis,links;routers,links;nodes, such as 3,4;4,3;5,1;2");
    const std::vector<int> factors{numbers[0], numbers[2], numbers[4], numbers[6]};
    if (const auto ok = same_number(product(factors, 4), text); !ok) return ok;
    Cluster& cluster = imported_.cluster;
    cluster.fabric = FabricKind::dragonfly;
    cluster.shape.routers = numbers[2] * numbers[4];
    cluster.shape.global_links = numbers[1];
    const int nodes = static_cast<int>(product(factors, 4) / numbers[0]);
    cluster.tiers = {
        {"group", nodes, std::max(1.0, static_cast<double>(nodes) / numbers[1] / std::max(1, numbers[0] - 1)),
         latency * 3},
        {"global", 0, 1, {}}};
    imported_.notes.push_back("routers of a group are taken as joined each with each, not by chassis");
    return {};
  }

  const XmlFile& xml_;
  std::string file_;
  std::int64_t hosts_ = 0, routers_ = 0, links_ = 0, routes_ = 0, clusters_ = 0;
  pugi::xml_node first_;
  pugi::xml_node cluster_;
  std::string written_;
  ImportedTopology imported_;
};

Result<ImportedTopology> read_simgrid_platform(std::string_view text, const std::string& file) {
  const Result<XmlFile> xml = XmlFile::parse(text, file, "platform");
  if (!xml) return tl::unexpected(xml.error());
  return Reader(*xml, file).read().and_then(possible_in(file));
}

bool is_simgrid(std::string_view content, std::string_view) { return has_root(content, "platform"); }

}  // namespace

const Importer kSimgrid{"simgrid", "SimGrid platform (XML) with a <cluster>, or one that `topology --export` wrote",
                        "topology_import.md", is_simgrid, read_simgrid_platform};

}  // namespace tracecast
