/// InfiniBand fabrics, from the cables that ibnetdiscover and iblinkinfo print (infiniband_fabric.hpp).
///
/// The aggregation node that a switch shows for in-network reduction is no host. Hosts are the adapters whose names differ in their last
/// word or number only. Nodes are the hosts with as many adapters as those that have most of all adapters; others (storage, login) are
/// counted and left out.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/import/gpu_facts.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/infiniband_fabric.hpp"
#include "sim/import/possible_topology.hpp"
#include "sim/import/recognise.hpp"

namespace tracecast {
namespace {

/// "node03_mlx5_7", "dgx-01 HCA-2": the host before the adapter. Other names are hosts of their own: "".
std::string host_of(const std::string& name) {
  for (const std::string_view mark : {"mlx5_", "HCA-", "hfi1_", "ibp", "mlx4_"}) {
    const std::size_t at = name.rfind(mark);
    if (at != std::string::npos && at > 1) return name.substr(0, at - 1);
  }
  return "";
}

/// The value that occurs most often, the largest of those.
template <class Key>
Key most_frequent(const std::map<Key, int>& counts) {
  Key best{};
  int most = 0;
  for (const auto& [key, count] : counts)
    if (count >= most) {
      most = count;
      best = key;
    }
  return best;
}

/// Where an adapter of a host is plugged in.
struct HostPort {
  std::string leaf;
  std::int64_t rate = 0;  ///< bytes per second
};

class Structure {
 public:
  Structure(const IbFabric& fabric, std::string file) : fabric_(fabric), file_(std::move(file)) {}

  Result<ImportedTopology> read() {
    count();
    if (adapters_ == 0 || switches_ == 0)
      return fail({file_, 0, "", "",
                   fmt::format("has {} switches and {} host adapters: nothing joins hosts", switches_, adapters_)});
    if (adapter_cables_ == 0) return fail({file_, 0, "", "", "has no cable between a host adapter and a switch"});
    find_levels();
    return topology();
  }

 private:
  static bool is_aggregation(const IbElement& e) { return e.name.find("Aggregation Node") != std::string::npos; }
  const IbElement& at(const IbPort& port) const { return fabric_.elements.at(port.guid); }

  void count() {
    for (const auto& [guid, e] : fabric_.elements) {
      aggregations_ += is_aggregation(e) ? 1 : 0;
      if (is_aggregation(e)) continue;
      switches_ += e.is_switch ? 1 : 0;
      adapters_ += e.is_switch ? 0 : 1;
      listed_switches_ += e.is_switch && e.listed ? 1 : 0;
      listed_adapters_ += !e.is_switch && e.listed ? 1 : 0;
      if (e.is_switch && e.ports > 0) ++ports_[e.ports % 2 == 1 ? e.ports - 1 : e.ports];
    }
    for (const auto& [ends, cable] : fabric_.cables) {
      const IbElement& a = at(ends.first);
      const IbElement& b = at(ends.second);
      if (is_aggregation(a) || is_aggregation(b)) continue;
      if (a.is_switch && b.is_switch) {
        ++switch_cables_;
        neighbours_[ends.first.guid].insert(ends.second.guid);
        neighbours_[ends.second.guid].insert(ends.first.guid);
        rates_of_switch_[ends.first.guid].push_back({ends.second.guid, cable.rate.bytes_per_second});
        rates_of_switch_[ends.second.guid].push_back({ends.first.guid, cable.rate.bytes_per_second});
      } else if (a.is_switch != b.is_switch) {
        ++adapter_cables_;
        const std::string& leaf = a.is_switch ? ends.first.guid : ends.second.guid;
        const IbElement& adapter = a.is_switch ? b : a;
        down_[leaf] += cable.rate.bytes_per_second;
        ++adapters_of_[leaf];
        const std::string host = host_of(adapter.name);
        const HostPort port{leaf, cable.rate.bytes_per_second};
        if (host.empty())
          single_.push_back(port);
        else
          hosts_[host].push_back(port);
      }
    }
  }

  /// 0: it has adapters; else one more than the lowest switch that it is connected to.
  void find_levels() {
    std::vector<std::string> level;
    for (const auto& [leaf, count] : adapters_of_) {
      level_[leaf] = 0;
      level.push_back(leaf);
    }
    for (int depth = 1; !level.empty(); ++depth) {
      std::vector<std::string> next;
      for (const std::string& guid : level)
        for (const std::string& above : neighbours_[guid])
          if (level_.insert({above, depth}).second) next.push_back(above);
      if (!next.empty()) levels_ = depth;
      level = std::move(next);
    }
  }

  /// Ports of a host of its own each, and of hosts, by their number; the rest are hosts with another number.
  void choose_nodes() {
    std::map<int, int> adapters{{1, static_cast<int>(single_.size())}};
    for (const auto& [host, ports] : hosts_) {
      const int size = static_cast<int>(ports.size());
      adapters[size] += size;
    }
    nics_ = most_frequent(adapters);
    for (const auto& [host, ports] : hosts_) {
      const int size = static_cast<int>(ports.size());
      if (size == nics_)
        nodes_.push_back(ports);
      else
        ++others_[size];
    }
    for (const HostPort& port : single_)
      if (nics_ == 1) nodes_.push_back({port});
    if (nics_ != 1 && !single_.empty()) others_[1] += static_cast<int>(single_.size());
  }

  bool rails() const {
    if (nics_ < 2) return false;
    return std::ranges::all_of(nodes_, [](const std::vector<HostPort>& ports) {
      std::set<std::string> leaves;
      for (const HostPort& port : ports) leaves.insert(port.leaf);
      return leaves.size() == ports.size();
    });
  }

  std::string others_text() const {
    std::string text;
    for (auto each = others_.rbegin(); each != others_.rend(); ++each)
      text += fmt::format("{}{} with {}", text.empty() ? "" : ", ", each->second, each->first);
    return text;
  }

  /// Bandwidth of all leaves to their hosts and to the switches above.
  double leaf_oversubscription() const {
    double down = 0;
    double up = 0;
    for (const auto& [leaf, rate] : down_) {
      const auto ups = rates_of_switch_.find(leaf);
      if (ups == rates_of_switch_.end()) continue;
      down += static_cast<double>(rate);
      for (const auto& [above, capacity] : ups->second) up += level_.at(above) > 0 ? static_cast<double>(capacity) : 0;
    }
    return up > 0 ? std::max(1.0, down / up) : 1;
  }

  std::int64_t usual_rate() const {
    std::map<std::int64_t, std::int64_t> counts;
    for (const auto& [ends, cable] : fabric_.cables) ++counts[cable.rate.bytes_per_second];
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts.end() ? 0 : most->first;
  }
  /// Links that came up with fewer lanes or at a lower rate than most.
  std::int64_t slower_cables() const {
    const std::int64_t usual = usual_rate();
    return std::count_if(fabric_.cables.begin(), fabric_.cables.end(),
                         [usual](const auto& each) { return each.second.rate.bytes_per_second < usual; });
  }
  Bandwidth slowest_cable() const {
    Bandwidth slowest{INT64_MAX};
    for (const auto& [ends, cable] : fabric_.cables) slowest = std::min(slowest, cable.rate);
    return slowest;
  }

  /// A GPU to a NIC, behind NVSwitches: what a fabric does not tell of its hosts.
  static NodeSpec node_with(int nics, std::int64_t rate) {
    NodeSpec node;
    node.nics = node.gpus = node.gpus_per_host = nics;
    node.nic_rate = {rate};
    node.nic_latency = kAssumedNicLatency;
    node.link = nics > 1 ? IntraLink::nvswitch : IntraLink::none;
    node.gpu_link = Bandwidth{kGpuFacts[0].link.bytes_per_second * kGpuFacts[0].links};
    node.link_latency = kAssumedLinkLatency;
    node.nvls = nics > 1;
    node.pcie = kGpuFacts[0].pcie;
    node.cpu = CpuKind::intel;
    return node;
  }

  /// `fullest`: nodes of the largest leaf.
  std::vector<FabricTier> tiers(int fullest) const {
    if (levels_ == 0) return {{"leaf", 0, 1, {}}};
    // A unit of the middle of three tiers is not told by the cables alone: all leaves are taken to meet there.
    return {{"leaf", fullest, leaf_oversubscription(), Duration{500'000}},
            {levels_ > 1 ? "spine and core" : "spine", 0, 1, {}}};
  }

  ImportedTopology topology() {
    ImportedTopology imported;
    imported.format = "InfiniBand fabric";
    Cluster& cluster = imported.cluster;
    choose_nodes();
    std::map<std::int64_t, int> rates;
    std::map<std::string, int> ports_of_leaf;
    for (const std::vector<HostPort>& ports : nodes_)
      for (const HostPort& port : ports) {
        ++rates[port.rate];
        ++ports_of_leaf[port.leaf];
      }
    cluster.node = node_with(nics_, most_frequent(rates));
    cluster.gpu = std::string(kGpuFacts[0].name);
    cluster.max_nodes = static_cast<int>(nodes_.size());
    const bool on_rails = rails();
    cluster.fabric = on_rails ? FabricKind::rail_optimized : FabricKind::fat_tree;
    if (!ports_.empty()) cluster.shape.switch_ports = most_frequent(ports_);
    int fullest = 1;
    for (const auto& [leaf, count] : ports_of_leaf)
      fullest = std::max(fullest, on_rails ? count : ceil_div(count, nics_));
    cluster.tiers = tiers(fullest);
    imported.found = {{"switches", listed_switches_},
                      {"adapters", listed_adapters_},
                      {"aggregation nodes", aggregations_},
                      {"hosts", static_cast<std::int64_t>(hosts_.size())},
                      {"leaves", static_cast<std::int64_t>(adapters_of_.size())},
                      {"cables to adapters", adapter_cables_},
                      {"cables between switches", switch_cables_}};
    imported.notes = {
        fmt::format("a fabric does not tell what its hosts are: taken as {} {} behind NVSwitches, a GPU to a NIC",
                    nics_, cluster.gpu),
        "latencies are usual ones: 1.5 us from NIC to NIC through a leaf, 0.5 us for a tier more"};
    if (!others_.empty())
      imported.notes.push_back(fmt::format(
          "nodes are the hosts with {} adapter{}, which have most of all adapters; other hosts are left out: {}", nics_,
          nics_ > 1 ? "s" : "", others_text()));
    if (const std::int64_t slow = slower_cables(); slow > 0)
      imported.notes.push_back(
          fmt::format("{} of {} cables are slower than most of their kind, down to {}: the topology has the "
                      "usual rate everywhere (perturbations of a scenario degrade links)",
                      slow, fabric_.cables.size(), to_text(slowest_cable())));
    if (fabric_.ambiguous > 0)
      imported.notes.push_back(
          fmt::format("{} ends of cables were left out: several switches or adapters have the name of their peer, and "
                      "its LID is not in the file",
                      fabric_.ambiguous));
    if (switches_ > listed_switches_)
      imported.notes.push_back(
          fmt::format("{} switches are named by others only: the dump is of a part", switches_ - listed_switches_));
    return imported;
  }

  const IbFabric& fabric_;
  std::string file_;
  int switches_ = 0, adapters_ = 0, aggregations_ = 0, listed_switches_ = 0, listed_adapters_ = 0, switch_cables_ = 0,
      adapter_cables_ = 0;
  int levels_ = 0;
  std::map<int, int> ports_;
  std::map<std::string, std::set<std::string>> neighbours_;
  std::map<std::string, std::vector<std::pair<std::string, std::int64_t>>> rates_of_switch_;
  std::map<std::string, std::int64_t> down_;
  std::map<std::string, int> adapters_of_;
  std::map<std::string, int> level_;
  std::map<std::string, std::vector<HostPort>> hosts_;  ///< by name
  std::vector<HostPort> single_;                        ///< adapters whose names do not tell their host
  int nics_ = 1;                                        ///< of a node
  std::vector<std::vector<HostPort>> nodes_;
  std::map<int, int> others_;  ///< [adapters] hosts that are no nodes
};

Result<ImportedTopology> read_infiniband_fabric(std::string_view text, const std::string& file) {
  const Result<IbFabric> fabric = read_cables(text, file);
  if (!fabric) return tl::unexpected(fabric.error());
  return Structure(*fabric, file).read().and_then(possible_in(file));
}

bool is_iblinkinfo(std::string_view content, std::string_view) {
  return head_contains(content, "==(") && head_contains(content, ")==>");
}

bool is_ibnetdiscover(std::string_view content, std::string_view) {
  return head_contains(content, "switchguid=") || head_contains(content, "caguid=") ||
         ((content.starts_with("CA ") || content.starts_with("SW ")) && head_contains(content, " 0x"));
}

}  // namespace

const Importer kIbnetdiscover{"ibnetdiscover", "output of ibnetdiscover: an InfiniBand fabric", "topology_import.md",
                              is_ibnetdiscover, read_infiniband_fabric};
const Importer kIblinkinfo{"iblinkinfo", "output of iblinkinfo: an InfiniBand fabric", "topology_import.md",
                           is_iblinkinfo, read_infiniband_fabric};

}  // namespace tracecast
