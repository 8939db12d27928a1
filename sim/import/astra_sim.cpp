/// ASTRA-sim's analytical network: YAML of one short list per key.
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

  static constexpr int kMaxGpus = 1'000'000;
  static constexpr std::size_t kMaxDimensions = 8;
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

Result<ImportedTopology> read_astra_sim_network(std::string_view text, const std::string& file) {
  if (is_json_object(text)) {
    if (contains(text, "scheduling-policy"))
      return fail({file, 0, "scheduling-policy", "",
                   "is of ASTRA-sim's system layer, which chooses algorithms of collectives; a topology comes from its "
                   "network file (.yml)"});
    if (contains(text, "logical-dims"))
      return fail({file, 0, "logical-dims", "",
                   "counts the dimensions for ns-3 and has no rates; a topology comes from the analytical network file "
                   "(.yml)"});
    if (contains(text, "memory-type"))
      return fail({file, 0, "memory-type", "", "describes remote memory, which topologies here do not have"});
  }
  return AstraSim(text, file).read().and_then(possible_in(file));
}

bool is_astra_sim(std::string_view content, std::string_view) {
  return head_contains(content, "npus_count") || has_key(content, "scheduling-policy") ||
         has_key(content, "logical-dims") || has_key(content, "memory-type");
}

}  // namespace

const Importer kAstraSim{"astra-sim", "network file of ASTRA-sim's analytical backend (YAML)", "topology_import.md",
                         is_astra_sim, read_astra_sim_network};

}  // namespace tracecast
