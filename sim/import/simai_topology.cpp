/// SimAI's topology for ns-3.
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
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

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

  static constexpr int kMaxGpus = 1'000'000;
  static constexpr Duration kLongestLatency{1'000'000'000'000};  // a second
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

Result<ImportedTopology> read_simai_topology(std::string_view text, const std::string& file) {
  return SimAi(text, file).read().and_then(possible_in(file));
}

/// Five counts and the name of a GPU.
bool is_simai_topology(std::string_view content, std::string_view) {
  const std::string_view line = content.substr(0, std::min<std::size_t>(content.find('\n'), 80));
  const std::size_t name = line.find_first_not_of("0123456789 \t");
  return name != std::string_view::npos &&
         std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(name), ' ') == 5;
}

}  // namespace

const Importer kSimaiTopology{"simai-topology", "topology of SimAI for ns-3", "topology_import.md", is_simai_topology,
                              read_simai_topology};

}  // namespace tracecast
