// Machines of other simulators: ASTRA-sim's analytical network (YAML of one short list per key) and SimAI's ns-3 topology.

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/import/gpu_facts.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/possible_topology.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

constexpr int kMaxGpus = 1'000'000;
constexpr std::size_t kMaxDimensions = 8;
constexpr Duration kLongestLatency{1'000'000'000'000};  // a second

/// Ring: a link to each of two neighbours; FullyConnected: to each GPU; Switch: one to a switch, so that a message has two hops.
/// A GPU has links of its own in each dimension, and a message has those of the dimensions in which its ends differ.
/// Source: docs/references.md#format-astra-sim
class AstraSim {
 public:
  AstraSim(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  Result<ImportedTopology> read() {
    for (const std::string_view line : split_lines(text_)) {
      ++line_;
      if (const auto ok = take(line); !ok) return tl::unexpected(ok.error());
    }
    for (const char* key : {"topology", "npus_count", "bandwidth", "latency"})
      if (!lists_.contains(key))
        return fail({file_, 0, key, "", "is missing (a list with an entry for each dimension)"});
    const std::size_t dimensions = lists_["topology"].size();
    for (const auto& [key, list] : lists_)
      if (list.size() != dimensions || dimensions == 0)
        return fail({file_, lines_[key], key, fmt::format("{} entries", list.size()),
                     fmt::format("does not have one for each of the {} dimensions", dimensions)});
    if (dimensions > kMaxDimensions)
      return fail({file_, lines_["topology"], "topology", fmt::format("{} entries", dimensions),
                   fmt::format("are more dimensions than {}", kMaxDimensions)});
    return build();
  }

 private:
  Result<void> take(std::string_view line) {
    line = line.substr(0, line.find('#'));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return {};
    const auto names = split_words(line.substr(0, colon), " \t\r\"");
    if (names.size() != 1) return {};
    const std::string key = shortened(names[0]);
    if (key != "topology" && key != "npus_count" && key != "bandwidth" && key != "latency")
      return fail({file_, line_, key, "",
                   "unknown key of ASTRA-sim's analytical network (allowed: topology npus_count bandwidth latency)"});
    const auto entries = split_words(line.substr(colon + 1), " \t\r[],");
    if (lines_.contains(key)) return fail({file_, line_, key, "", "is given twice"});
    std::vector<double>& list = lists_[key];
    lines_[key] = line_;
    for (const std::string_view entry : entries) {
      const auto kind = std::find(std::begin(kKinds), std::end(kKinds), entry);
      const auto number = parse_number<double>(entry);
      const double most = key == "npus_count" ? kMaxGpus : 1e9;
      if (key == "topology" && kind == std::end(kKinds))
        return fail(
            {file_, line_, key, shortened(entry), "unknown kind of dimension (allowed: Ring FullyConnected Switch)"});
      if (key != "topology" && (!number || *number < (key == "latency" ? 0 : 1e-3) || *number > most))
        return fail({file_, line_, key, shortened(entry), "is not a positive number"});
      list.push_back(key == "topology" ? static_cast<double>(kind - std::begin(kKinds)) : *number);
    }
    return {};
  }

  Result<ImportedTopology> build() {
    double total = 1;
    for (const double count : lists_["npus_count"]) {
      if (count != std::floor(count) || count < 1)
        return fail({file_, lines_["npus_count"], "npus_count", fmt::format("{}", count), "must be a count"});
      total *= count;
    }
    if (total > kMaxGpus)
      return fail(
          {file_, lines_["npus_count"], "npus_count", "", fmt::format("is more than {} GPUs in all", kMaxGpus)});
    const auto written = static_cast<std::int64_t>(lists_["npus_count"].size());
    leave_out_single();
    const std::vector<double>& kinds = lists_["topology"];
    const std::vector<double>& counts = lists_["npus_count"];
    ImportedTopology imported;
    imported.format = "ASTRA-sim network";
    Cluster& cluster = imported.cluster;
    cluster.gpu = std::string(kGpuFacts[0].name);
    NodeSpec& node = cluster.node;
    node.gpus = node.gpus_per_host = static_cast<int>(counts[0]);
    node.link = counts[0] < 2 ? IntraLink::none : kinds[0] == kSwitch ? IntraLink::nvswitch : IntraLink::nvlink_mesh;
    node.gpu_link = rate(0, links(0));
    node.link_latency = latency(0);
    node.cpu = CpuKind::intel;
    node.pcie = kGpuFacts[0].pcie;
    cluster.max_nodes = static_cast<int>(total / counts[0]);
    if (const auto ok = outer(imported); !ok) return tl::unexpected(ok.error());
    imported.found = {{"dimensions", written}, {"GPUs", static_cast<std::int64_t>(total)}};
    imported.notes.push_back("the file names no GPU and no CPU: taken as h100 and intel");
    imported.notes.push_back("the first dimension is taken as the node, the others as the fabric between nodes");
    imported.notes.push_back("a GB/s is 2^30 bytes a second, as ASTRA-sim takes it");
    if (counts.size() > 2)
      imported.notes.push_back(
          "the links of a GPU in the dimensions above the second are taken as one NIC at the second's rate");
    if (kinds[0] == kRing)
      imported.notes.push_back("a ring inside the node is taken as links to two neighbours, joined all to all");
    return imported;
  }

  /// Dimensions of one GPU above the first have no links.
  void leave_out_single() {
    for (std::size_t d = lists_["npus_count"].size(); d-- > 1;)
      if (lists_["npus_count"][d] == 1)
        for (auto& [key, list] : lists_) list.erase(list.begin() + static_cast<std::ptrdiff_t>(d));
  }

  /// Dimensions above the first: one NIC a GPU at the rate of the second; slower ones above it are oversubscribed tiers. Hosts of a
  /// torus are its routers.
  /// Errors: links that one NIC and its tiers cannot stand for.
  Result<void> outer(ImportedTopology& imported) {
    const std::vector<double>& kinds = lists_["topology"];
    const std::vector<double>& counts = lists_["npus_count"];
    Cluster& cluster = imported.cluster;
    NodeSpec& node = cluster.node;
    if (counts.size() == 1) {
      node.nics = 0;
      cluster.fabric = FabricKind::none;
      cluster.max_nodes = 1;
      return {};
    }
    node.nics = node.gpus;
    node.nic_rate = rate(1, 1);
    const bool torus = std::all_of(kinds.begin() + 1, kinds.end(), [](double kind) { return kind == kRing; });
    for (std::size_t d = 1; d < counts.size(); ++d)
      if (const auto ok = torus ? check_ring(d) : check_tier(d); !ok) return ok;
    if (!torus) {
      cluster.fabric = FabricKind::fat_tree;
      node.nic_latency = latency(1);
      add_tiers(cluster);
      return {};
    }
    cluster.fabric = FabricKind::torus;
    for (std::size_t d = 1; d < counts.size(); ++d) {
      std::vector<int>& lengths = cluster.shape.dimensions;  // ASTRA-sim numbers the first dimension fastest
      lengths.insert(lengths.begin(), static_cast<int>(counts[d]));
      if (links(d) > 1 && imported.notes.empty())
        imported.notes.push_back("a GPU is taken to use one of its links to neighbours in other nodes at a time");
    }
    cluster.tiers = {{"torus", 0, 1, latency(1)}};
    return {};
  }

  void add_tiers(Cluster& cluster) {
    const std::vector<double>& rates = lists_["bandwidth"];
    int nodes = 1;
    for (std::size_t d = 1; d < rates.size(); ++d) {
      nodes *= static_cast<int>(lists_["npus_count"][d]);
      const bool last = d + 1 == rates.size();
      cluster.tiers.push_back({fmt::format("dimension {}", d), last ? 0 : nodes, last ? 1 : rates[d] / rates[d + 1],
                               last ? Duration{} : latency(d + 1) - latency(d)});
    }
  }

  /// Links of a torus have one rate and one latency.
  Result<void> check_ring(std::size_t d) {
    for (const char* key : {"bandwidth", "latency"})
      if (lists_[key][d] != lists_[key][1])
        return refuse(key, d,
                      fmt::format("differs from {} of the second dimension: the links of a torus have one {}",
                                  lists_[key][1], key));
    return {};
  }

  /// A switch, or two GPUs on one link.
  Result<void> check_tier(std::size_t d) {
    const double kind = lists_["topology"][d];
    const double count = lists_["npus_count"][d];
    if (kind == kRing && count > 2)
      return refuse("topology", d,
                    fmt::format("a ring of {} above or below another kind of dimension is not modelled "
                                "(allowed: rings in all dimensions above the first)",
                                count));
    if (kind == kFullyConnected && count > 2)
      return refuse("topology", d,
                    fmt::format("a link of its own to each of {} other nodes is not modelled outside of "
                                "the first dimension (allowed: Switch)",
                                count - 1));
    if (d > 1 && lists_["bandwidth"][d] > lists_["bandwidth"][d - 1])
      return refuse("bandwidth", d,
                    fmt::format("is above {} of the dimension below, whose NICs carry its traffic here "
                                "(allowed: up to that)",
                                lists_["bandwidth"][d - 1]));
    if (d > 1 && latency(d) < latency(d - 1))
      return refuse("latency", d,
                    fmt::format("makes a message shorter than in the dimension below, of {}: tiers only "
                                "add to it",
                                to_text(latency(d - 1))));
    return {};
  }

  tl::unexpected<Error> refuse(const char* key, std::size_t d, const std::string& message) {
    const double value = lists_[key][d];
    const std::string text =
        key == std::string_view("topology") ? std::string(kKinds[static_cast<int>(value)]) : fmt::format("{}", value);
    return fail({file_, lines_[key], key, text, message});
  }

  /// Of a GPU in a dimension.
  double links(std::size_t d) {
    const double others = std::max(1.0, lists_["npus_count"][d] - 1);
    const double kind = lists_["topology"][d];
    return kind == kRing ? std::min(2.0, others) : kind == kFullyConnected ? others : 1;
  }

  Bandwidth rate(std::size_t dimension, double links) {
    constexpr double kGigabyte = 1 << 30;
    return {
        std::max<std::int64_t>(1, std::llround(std::min(1e18, lists_["bandwidth"][dimension] * links * kGigabyte)))};
  }
  /// From GPU to GPU, in a ring to the next one.
  Duration latency(std::size_t dimension) {
    const double hops = lists_["topology"][dimension] == kSwitch ? 2 : 1;
    return from_seconds(hops * lists_["latency"][dimension] * 1e-9);
  }

  static constexpr std::string_view kKinds[] = {"Ring", "FullyConnected", "Switch"};
  static constexpr double kRing = 0;
  static constexpr double kFullyConnected = 1;
  static constexpr double kSwitch = 2;
  std::string_view text_;
  std::string file_;
  int line_ = 0;
  std::map<std::string, std::vector<double>> lists_;
  std::map<std::string, int> lines_;
};

/// Line 1: nodes, GPUs of a server, NVSwitches, other switches, links, GPU type. Line 2: ids of the switches. Then links:
/// source, destination, rate, latency, error rate. GPUs have the lowest ids, then NVSwitches.
///
/// A switch that GPUs are connected to is a leaf (asw), the others are above them (psw, dsw). The fabric is rail-optimised if no leaf
/// serves two GPUs of one server. Two leaves of one GPU (dual ToR) are two NICs. The rates of the links below and above a leaf give its
/// oversubscription.
/// Source: docs/references.md#format-simai-topology
class SimAi {
 public:
  SimAi(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  Result<ImportedTopology> read() {
    std::vector<std::vector<std::string_view>> lines;
    for (const std::string_view line : split_lines(text_)) lines.push_back(split_words(line));
    if (lines.size() < 3 || lines[0].size() != 6)
      return fail(
          {file_, 1, "", "",
           "is not a topology of SimAI: expected nodes, GPUs per server, NVSwitches, switches, links, GPU type"});
    for (std::size_t i = 0; i < 5; ++i) {
      const auto number = parse_number<double>(lines[0][i]);
      if (!number || *number < 0 || *number > kMaxGpus || *number != std::floor(*number))
        return fail_at(1, lines[0][i], "must be a count");
      head_[i] = static_cast<int>(*number);
    }
    if (gpus() < 1 || head_[1] < 1 || gpus() % head_[1] != 0)
      return fail({file_, 1, "", "", fmt::format("has {} GPUs in servers of {}", gpus(), head_[1])});
    for (std::size_t i = 2; i < lines.size(); ++i)
      if (!lines[i].empty())
        if (const auto ok = link(lines[i], static_cast<int>(i) + 1); !ok) return tl::unexpected(ok.error());
    if (links_ != head_[4])
      return fail({file_, 1, "", "", fmt::format("{} links are declared, and {} follow", head_[4], links_)});
    if (node_.gpu_link.bytes_per_second == 0 || nics_ == 0)
      return fail({file_, 0, "", "", "has no link from a GPU to an NVSwitch, or none to a switch"});
    return build(lines[0][5]);
  }

 private:
  int gpus() const { return head_[0] - head_[2] - head_[3]; }

  tl::unexpected<Error> fail_at(int line, std::string_view word, const std::string& message) const {
    return fail({file_, line, "", "", fmt::format("'{}' {}", shortened(word), message)});
  }

  Result<void> link(const std::vector<std::string_view>& words, int line) {
    if (words.size() < 5)
      return fail({file_, line, "", "", "is not a link: expected source, destination, rate, latency, error rate"});
    const auto from = parse_number<double>(words[0]);
    const auto to = parse_number<double>(words[1]);
    const auto rate = rate_of(words[2]);
    const Result<Duration> latency = parse_duration(words[3]);
    if (!from || !to || *from < 0 || *to < 0 || *from >= head_[0] || *to >= head_[0])
      return fail_at(line, words[0], fmt::format("or its destination is not the id of a node below {}", head_[0]));
    if (!rate) return fail_at(line, words[2], "must be a rate such as 2880Gbps");
    if (!latency || *latency > kLongestLatency) return fail_at(line, words[3], "must be a time such as 0.0005ms");
    ++links_;
    if (*from >= gpus()) {
      between_.push_back({static_cast<int>(*from), static_cast<int>(*to), rate->bytes_per_second});
      return {};
    }
    const bool inside = *to < gpus() + head_[2];
    const Bandwidth before = inside ? node_.gpu_link : node_.nic_rate;
    if (before.bytes_per_second > 0 && before != *rate) ++unequal_;
    if (inside) {
      if (before.bytes_per_second == 0) node_.gpu_link = *rate;
      node_.link_latency = *latency;
    } else {
      if (before.bytes_per_second == 0) node_.nic_rate = *rate;
      node_.nic_latency = *latency;
      if (*from < head_[1]) ++nics_;
      Leaf& leaf = leaves_[static_cast<int>(*to)];
      leaf.down += rate->bytes_per_second;
      ++leaf.gpus_of_server[static_cast<int>(*from) / head_[1]];
    }
    return {};
  }

  /// A switch that GPUs are connected to.
  struct Leaf {
    std::int64_t down = 0;              ///< bytes/s of the links to GPUs
    std::int64_t up = 0;                ///< of the links to switches that are no leaves
    std::map<int, int> gpus_of_server;  ///< [server]
  };
  struct SwitchLink {
    int from;
    int to;
    std::int64_t rate;
  };

  bool is_leaf(int node) const { return leaves_.contains(node); }

  /// Errors: leaves that are not connected with each other.
  Result<void> build_fabric(ImportedTopology& imported) {
    Cluster& cluster = imported.cluster;
    bool higher = false;
    for (const SwitchLink& each : between_) {
      if (is_leaf(each.from) && !is_leaf(each.to)) leaves_[each.from].up += each.rate;
      if (is_leaf(each.to) && !is_leaf(each.from)) leaves_[each.to].up += each.rate;
      higher = higher || (!is_leaf(each.from) && !is_leaf(each.to));
    }
    std::size_t servers = 0;
    bool rails = head_[1] > 1;
    double oversubscription = 1;
    for (const auto& [id, leaf] : leaves_) {
      servers = std::max(servers, leaf.gpus_of_server.size());
      rails = rails && std::ranges::all_of(leaf.gpus_of_server, [](const auto& each) { return each.second == 1; });
    }
    cluster.fabric = rails ? FabricKind::rail_optimized : FabricKind::fat_tree;
    cluster.tiers = {{"leaf", 0, 1, {}}};
    if (static_cast<int>(servers) == cluster.max_nodes) return {};
    for (const auto& [id, leaf] : leaves_) {
      if (leaf.up == 0) return fail({file_, 0, "", "", fmt::format("has no link from switch {} to one above it", id)});
      oversubscription = std::max(oversubscription, static_cast<double>(leaf.down) / static_cast<double>(leaf.up));
    }
    cluster.tiers = {{"leaf", static_cast<int>(servers), oversubscription, {}}, {"spine", 0, 1, {}}};
    if (higher) imported.notes.push_back("switches above the second level are taken as without oversubscription");
    return {};
  }

  static std::optional<Bandwidth> rate_of(std::string_view word) {
    if (!word.ends_with("Gbps")) return std::nullopt;
    const auto number = parse_number<double>(word.substr(0, word.size() - 4));
    if (!number || *number <= 0 || *number > 1e6) return std::nullopt;
    return Bandwidth{std::max<std::int64_t>(1, std::llround(*number * 0.125e9))};
  }

  Result<ImportedTopology> build(std::string_view gpu) {
    ImportedTopology imported;
    imported.format = "SimAI topology";
    Cluster& cluster = imported.cluster;
    const std::string name = lower_case(shortened(gpu));
    const auto known =
        std::find_if(std::begin(kGpuFacts), std::end(kGpuFacts), [&name](const GpuFacts& f) { return f.name == name; });
    cluster.gpu = known == std::end(kGpuFacts) ? std::string(kGpuFacts[0].name) : name;
    cluster.node = node_;
    NodeSpec& node = cluster.node;
    node.gpus = node.gpus_per_host = head_[1];
    node.link = head_[1] < 2 ? IntraLink::none : IntraLink::nvswitch;
    node.nics = nics_;
    node.cpu = CpuKind::intel;
    node.pcie = kGpuFacts[0].pcie;
    cluster.max_nodes = gpus() / head_[1];
    if (const auto ok = build_fabric(imported); !ok) return tl::unexpected(ok.error());
    imported.found = {{"GPUs", gpus()}, {"NVSwitches", head_[2]}, {"switches", head_[3]}, {"links", links_}};
    if (known == std::end(kGpuFacts))
      imported.notes.push_back(fmt::format("GPU {} has no profile here: taken as {}", name, cluster.gpu));
    if (unequal_ > 0)
      imported.notes.push_back(fmt::format(
          "{} links of GPUs have another rate than the first of their kind: all are taken as the first", unequal_));
    return imported;
  }

  std::string_view text_;
  std::string file_;
  int head_[5]{};
  int links_ = 0;
  int nics_ = 0;
  NodeSpec node_;
  std::map<int, Leaf> leaves_;  ///< [id]
  std::vector<SwitchLink> between_;
  int unequal_ = 0;  ///< links of GPUs with another rate than the first of their kind
};

Result<ImportedTopology> read_astra_sim_network(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    const auto has = [text](std::string_view part) { return text.find(part) != std::string_view::npos; };
    if (has("scheduling-policy"))
      return fail({file, 0, "scheduling-policy", "",
                   "is of ASTRA-sim's system layer, which chooses algorithms of collectives; a topology comes from its "
                   "network file (.yml)"});
    if (has("logical-dims"))
      return fail({file, 0, "logical-dims", "",
                   "counts the dimensions for ns-3 and has no rates; a topology comes from the analytical network file "
                   "(.yml)"});
    if (has("memory-type"))
      return fail({file, 0, "memory-type", "", "describes remote memory, which topologies here do not have"});
  }
  return AstraSim(text, file).read().and_then(possible_in(file));
}

Result<ImportedTopology> read_simai_topology(std::string_view text, const std::string& file) {
  return SimAi(text, file).read().and_then(possible_in(file));
}

bool is_astra_sim(std::string_view content, std::string_view) {
  return head_contains(content, "npus_count") || has_key(content, "scheduling-policy") ||
         has_key(content, "logical-dims") || has_key(content, "memory-type");
}

/// Five counts and the name of a GPU.
bool is_simai_topology(std::string_view content, std::string_view) {
  const std::string_view line = content.substr(0, std::min<std::size_t>(content.find('\n'), 80));
  const std::size_t name = line.find_first_not_of("0123456789 \t");
  return name != std::string_view::npos &&
         std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(name), ' ') == 5;
}

}  // namespace

const Importer kAstraSim{"astra-sim", "network file of ASTRA-sim's analytical backend (YAML)", "topology_import.md",
                         is_astra_sim, read_astra_sim_network};
const Importer kSimaiTopology{"simai-topology", "topology of SimAI for ns-3", "topology_import.md", is_simai_topology,
                              read_simai_topology};

}  // namespace tracecast
