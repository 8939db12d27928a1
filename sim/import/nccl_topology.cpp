/// NCCL's topology XML: <system> of <cpu>s with trees of <pci>, at whose leaves are <gpu>s with <nvlink>s, and <nic>s with <net>s.
///
/// Files that clouds ship hold the PCI tree alone: GPUs and NICs are then told by their PCI class, and what else a topology
/// needs by the usual machine of that kind.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/import/gpu_facts.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/recognise.hpp"
#include "sim/import/xml_lines.hpp"

namespace tracecast {
namespace {

constexpr int kDeepest = 64;

struct PciIds {
  std::string_view device;
  std::string_view gpu;
};
constexpr PciIds kDevices[] = {{"0x20b0", "a100"}, {"0x20b2", "a100"}, {"0x20b5", "a100"},  {"0x2324", "h800"},
                               {"0x2330", "h100"}, {"0x2335", "h200"}, {"0x2901", "b200"},  {"0x1db1", "v100"},
                               {"0x1db5", "v100"}, {"0x1db8", "v100"}, {"0x74a1", "mi300x"}};

/// Interfaces that are no hardware.
constexpr std::string_view kVirtual[] = {"docker", "veth",  "br-",          "virbr", "lo",    "tap",
                                         "vnet",   "cali",  "flannel",      "cni",   "tun",   "dummy",
                                         "kube",   "bond-", "nodelocaldns", "ovs",   "vxlan", "lxc"};

struct Gpu {
  std::string bus;
  std::string device;
  std::int64_t compute_capability = 0;
  Bandwidth pcie;
  std::map<std::string, std::int64_t> links;  ///< number of links by target
  bool xgmi = false;
};

struct Net {
  std::int64_t megabits = 0;  ///< 0: not said
  bool infiniband = false;
};

class NcclTopologyReader {
 public:
  NcclTopologyReader(const XmlFile& xml, std::string file) : xml_(xml), file_(std::move(file)) {}

  Result<ImportedTopology> read() {
    for (const pugi::xml_node cpu : xml_.root().children("cpu")) {
      ++cpus_;
      const std::string vendor = cpu.attribute("vendor").value();
      if (vendor == "AuthenticAMD") cpu_ = CpuKind::amd;
      if (vendor == "GenuineIntel") cpu_ = CpuKind::intel;
      if (std::string_view(cpu.attribute("arch").value()) == "arm64") cpu_ = CpuKind::grace;
      if (const auto ok = read_below(cpu, 0); !ok) return tl::unexpected(ok.error());
    }
    if (gpus_.empty() && classes_ == 0 && pcis_ > 0)
      return xml_.fail_at(
          xml_.root(), "", "",
          fmt::format("has {} PCI devices without class and no <gpu>: which of them are GPUs is not given", pcis_));
    if (gpus_.empty()) return xml_.fail_at(xml_.root(), "", "", "has no GPU");
    return topology();
  }

 private:
  Result<void> read_below(const pugi::xml_node& parent, int depth) {
    if (depth > kDeepest) return xml_.fail_at(parent, "", "", "PCI devices are nested too deeply");
    for (const pugi::xml_node child : parent.children()) {
      const std::string_view name = child.name();
      Result<void> ok;
      if (name == "pci") ok = read_pci(child, depth);
      if (name == "nic") ok = read_nic(child, nullptr);
      if (!ok) return ok;
    }
    return {};
  }

  Result<void> read_pci(const pugi::xml_node& pci, int depth) {
    ++pcis_;
    const std::string_view pci_class = pci.attribute("class").value();
    sparse_ = sparse_ || pci.attribute("vendor").empty();
    if (!pci_class.empty()) ++classes_;
    const pugi::xml_node gpu = pci.child("gpu");
    if (gpu || pci_class.starts_with("0x0302") || pci_class.starts_with("0x0300")) return read_gpu(pci, gpu);
    if (pci_class.starts_with("0x0207") || pci_class.starts_with("0x0200")) {
      Net net{0, pci_class.starts_with("0x0207")};
      for (const pugi::xml_node nic : pci.children("nic"))
        if (const auto ok = read_nic(nic, &net); !ok) return ok;
      pci_nets_.push_back(net);
      return {};
    }
    return read_below(pci, depth + 1);
  }

  Result<void> read_gpu(const pugi::xml_node& pci, const pugi::xml_node& element) {
    Gpu gpu;
    gpu.bus = pci.attribute("busid").value();
    gpu.device = pci.attribute("device").value();
    const auto width = xml_.integer(pci, "link_width", 0, 0, 64);
    if (!width) return tl::unexpected(width.error());
    gpu.pcie = pcie_rate(pci.attribute("link_speed").value(), *width);
    if (element) {
      ++elements_;
      const auto capability = xml_.integer(element, "sm", 0, 0, 1 << 20);
      if (!capability) return tl::unexpected(capability.error());
      gpu.compute_capability = *capability;
    }
    for (const pugi::xml_node link : element.children()) {
      const bool xgmi = std::string_view(link.name()) == "xgmi";
      if (!xgmi && std::string_view(link.name()) != "nvlink") continue;
      const auto count = xml_.integer(link, "count", 0, 0, 1024);
      if (!count) return tl::unexpected(count.error());
      gpu.links[link.attribute("target").value()] += *count;
      gpu.xgmi = gpu.xgmi || xgmi;
    }
    gpus_.push_back(std::move(gpu));
    return {};
  }

  /// What a copy reaches on x16 of generations 3, 4, 5 and 6 (docs/references.md#pcie-copies); 0 where the file does
  /// not say it credibly.
  static Bandwidth pcie_rate(const char* speed, std::int64_t width) {
    const double gigatransfers = std::strtod(speed, nullptr);
    const std::pair<double, std::int64_t> rates[] = {{64, 106}, {32, 53}, {16, 26}, {8, 12}};
    for (const auto& [lowest, gigabytes] : rates)
      if (gigatransfers >= lowest && gigatransfers < 2 * lowest && width >= 4 && width <= 16)
        return {gigabytes * 1'000'000'000 * width / 16};
    return {};
  }

  Result<void> read_nic(const pugi::xml_node& nic, Net* of_pci) {
    ++nics_;
    for (const pugi::xml_node net : nic.children("net")) {
      ++nets_;
      const std::string_view name = net.attribute("name").value();
      const auto speed = xml_.integer(net, "speed", 0, 0, 10'000'000);
      if (!speed) return tl::unexpected(speed.error());
      const bool is_virtual = std::any_of(std::begin(kVirtual), std::end(kVirtual),
                                          [&](std::string_view prefix) { return name.starts_with(prefix); });
      if (is_virtual) continue;
      if (of_pci != nullptr) of_pci->megabits = std::max(of_pci->megabits, *speed);
      if (of_pci == nullptr) other_nets_.push_back({*speed, false});
    }
    return {};
  }

  const GpuFacts& facts() const {
    const Gpu& gpu = gpus_.front();
    std::string_view name;
    for (const PciIds& ids : kDevices)
      if (ids.device == gpu.device) name = ids.gpu;
    for (const GpuFacts& facts : kGpuFacts)
      if (facts.name == name ||
          (name.empty() && facts.compute_capability == gpu.compute_capability && gpu.compute_capability > 0))
        return facts;
    const bool fourth = gpu.pcie.bytes_per_second > 0 && gpu.pcie.bytes_per_second <= 26'000'000'000;
    return kGpuFacts[fourth ? 3 : 0];
  }

  void note(std::string text) { imported_.notes.push_back(std::move(text)); }

  /// Known GPUs by name, others by their compute capability.
  void name_gpu(const GpuFacts& facts) {
    const Gpu& gpu = gpus_.front();
    const bool known = facts.compute_capability == gpu.compute_capability ||
                       std::any_of(std::begin(kDevices), std::end(kDevices),
                                   [&](const PciIds& ids) { return ids.device == gpu.device; });
    imported_.cluster.gpu = known                        ? std::string(facts.name)
                            : gpu.compute_capability > 0 ? fmt::format("sm-{}", gpu.compute_capability)
                                                         : std::string(facts.name);
    if (!known && gpu.compute_capability == 0)
      note(fmt::format("the file does not name the GPU: taken as {}", facts.name));
  }

  void join_gpus(const GpuFacts& facts, NodeSpec& node) {
    std::set<std::string> buses;
    std::set<std::string> targets;
    std::int64_t most = 0;
    std::int64_t fewest = 1 << 20;
    for (const Gpu& gpu : gpus_) {
      buses.insert(gpu.bus);
      std::int64_t links = 0;
      for (const auto& [target, count] : gpu.links) {
        links += count;
        targets.insert(target);
      }
      most = std::max(most, links);
      fewest = std::min(fewest, links);
    }
    if (most == 0 && sparse_ && gpus_.size() > 1 && facts.links > 0) {
      node.link = IntraLink::nvswitch;
      node.gpu_link = {facts.link.bytes_per_second * facts.links};
      note(fmt::format("the file has no NVLinks: taken as {} of {} to an NVSwitch", facts.links, to_text(facts.link)));
      return;
    }
    if (most == 0) {
      node.link = gpus_.size() > 1 ? IntraLink::pcie : IntraLink::none;
      return;
    }
    const bool between_gpus = std::all_of(targets.begin(), targets.end(),
                                          [&](const std::string& target) { return buses.count(target) != 0; });
    node.gpu_link = {facts.link.bytes_per_second * most};
    node.link = !between_gpus ? IntraLink::nvswitch : gpus_.front().xgmi ? IntraLink::xgmi : IntraLink::nvlink_mesh;
    if (between_gpus && gpus_.size() == 1) node.link = IntraLink::none;
    if (!between_gpus) node.nvswitches = static_cast<int>(targets.size());
    if (fewest != most) note(fmt::format("GPUs have {} to {} links: taken as {} each", fewest, most, most));
    if (between_gpus && targets.size() > 1 && gpus_.front().links.size() + 1 < gpus_.size())
      note("links do not join every two GPUs: taken as spread evenly over all others");
  }

  void add_nics(const GpuFacts& facts, NodeSpec& node) {
    const std::vector<Net>& nets = pci_nets_.empty() ? other_nets_ : pci_nets_;
    std::int64_t fastest = 0;
    for (const Net& net : nets) fastest = std::max(fastest, net.megabits);
    for (const Net& net : nets) node.nics += net.megabits == fastest ? 1 : 0;
    node.nic_rate = {fastest * 125'000};
    if (fastest == 0 && node.nics > 0) {
      node.nic_rate = nets.front().infiniband ? facts.nic : Bandwidth{12'500'000'000};
      note(fmt::format("the file has no rates of NICs: taken as {}", to_text(node.nic_rate)));
    }
    if (node.nics < static_cast<int>(nets.size()))
      note(fmt::format("{} slower NICs are left out", static_cast<int>(nets.size()) - node.nics));
    if (node.nics > 0) node.nic_latency = Duration{1'500'000};
  }

  ImportedTopology topology() {
    Cluster& cluster = imported_.cluster;
    NodeSpec& node = cluster.node;
    const GpuFacts& known = facts();
    name_gpu(known);
    node.gpus = node.gpus_per_host = static_cast<int>(gpus_.size());
    node.nics = 0;
    join_gpus(known, node);
    add_nics(known, node);
    node.link_latency = Duration{node.link == IntraLink::none ? 0 : 1'000'000};
    node.nvls = node.link == IntraLink::nvswitch && known.compute_capability >= 90;
    node.pcie = gpus_.front().pcie;
    if (node.pcie.bytes_per_second == 0) {
      node.pcie = known.pcie;
      note(fmt::format("the file has no credible PCIe rate: taken as {}", to_text(node.pcie)));
    }
    node.cpu = cpu_.value_or(CpuKind::intel);
    if (!cpu_) note("the file does not name the CPU: taken as intel");
    cluster.fabric = node.nics > 0 ? FabricKind::fat_tree : FabricKind::none;
    if (node.nics > 0) cluster.tiers = {{"fabric", 0, 1, {}}};
    if (node.nics == 0) cluster.max_nodes = 1;
    imported_.format = "NCCL topology XML";
    imported_.found = {{"CPUs", cpus_},
                       {"PCI devices", pcis_},
                       {"GPU elements", elements_},
                       {"GPUs", static_cast<std::int64_t>(gpus_.size())},
                       {"NIC elements", nics_},
                       {"nets", nets_},
                       {"PCI NICs", static_cast<std::int64_t>(pci_nets_.size())}};
    return std::move(imported_);
  }

  const XmlFile& xml_;
  std::string file_;
  std::optional<CpuKind> cpu_;
  std::int64_t cpus_ = 0, pcis_ = 0, classes_ = 0, elements_ = 0, nics_ = 0, nets_ = 0;
  bool sparse_ = false;  ///< some PCI device does not say what it is
  std::vector<Gpu> gpus_;
  std::vector<Net> pci_nets_;    ///< NICs on PCI
  std::vector<Net> other_nets_;  ///< below a CPU
  ImportedTopology imported_;
};

Result<ImportedTopology> read_nccl_topology(std::string_view text, const std::string& file) {
  const Result<XmlFile> xml = XmlFile::parse(text, file, "system");
  if (!xml) return tl::unexpected(xml.error());
  return NcclTopologyReader(*xml, file).read();
}

/// What the graphs of NCCL's search have in common: the GPUs and NICs of one node, and what its best graph moves.
struct NcclGraphs {
  std::set<std::string> gpus;
  std::set<std::string> nets;
  std::int64_t best_inside = 0;   ///< bytes/s of all channels of a graph
  std::int64_t best_outside = 0;  ///< likewise, through NICs
  bool nvlink = false;
  int channels = 0;
  std::vector<std::pair<std::string, std::int64_t>> found;
};

/// GB/s of one channel.
Result<double> channel_rate(const XmlFile& xml, const pugi::xml_node& graph, const char* attribute) {
  const std::string value = graph.attribute(attribute).value();
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(number >= 0 && number <= 10'000))
    return xml.fail_at(graph, fmt::format("graph.{}", attribute), value, "must be GB/s from 0 to 10000");
  return number;
}

Result<void> add_graph(NcclGraphs& graphs, const XmlFile& xml, const pugi::xml_node& graph) {
  const auto count = xml.integer(graph, "nchannels", 0, 0, 1024);
  if (!count) return tl::unexpected(count.error());
  const Result<double> inside = channel_rate(xml, graph, "speedintra");
  if (!inside) return tl::unexpected(inside.error());
  const Result<double> outside = channel_rate(xml, graph, "speedinter");
  if (!outside) return tl::unexpected(outside.error());
  const auto rate_of_all = [&](double gigabytes) {
    return static_cast<std::int64_t>(static_cast<double>(*count) * gigabytes * 1e9);
  };
  graphs.best_inside = std::max(graphs.best_inside, rate_of_all(*inside));
  graphs.best_outside = std::max(graphs.best_outside, rate_of_all(*outside));
  graphs.nvlink = graphs.nvlink || std::string_view(graph.attribute("typeintra").value()) == "NVL";
  for (const pugi::xml_node channel : graph.children("channel")) {
    ++graphs.channels;
    for (const pugi::xml_node gpu : channel.children("gpu")) graphs.gpus.insert(gpu.attribute("dev").value());
    for (const pugi::xml_node net : channel.children("net")) graphs.nets.insert(net.attribute("dev").value());
  }
  graphs.found.emplace_back(fmt::format("channels of graph {}", graph.attribute("id").value()), *count);
  return {};
}

NodeSpec node_of(const NcclGraphs& graphs) {
  NodeSpec node;
  node.gpus = node.gpus_per_host = static_cast<int>(graphs.gpus.size());
  node.link = node.gpus == 1 ? IntraLink::none : graphs.nvlink ? IntraLink::nvswitch : IntraLink::pcie;
  node.gpu_link = {graphs.best_inside};
  node.pcie = graphs.nvlink ? kGpuFacts[0].pcie : Bandwidth{graphs.best_inside};
  node.link_latency = Duration{1'000'000};
  node.nics = static_cast<int>(graphs.nets.size());
  if (node.nics > 0) node.nic_rate = {std::max<std::int64_t>(1, graphs.best_outside / node.nics)};
  if (node.nics > 0) node.nic_latency = Duration{1'500'000};
  node.cpu = CpuKind::intel;
  return node;
}

Result<ImportedTopology> read_nccl_graph(std::string_view text, const std::string& file) {
  const Result<XmlFile> xml = XmlFile::parse(text, file, "graphs");
  if (!xml) return tl::unexpected(xml.error());
  NcclGraphs graphs;
  for (const pugi::xml_node graph : xml->root().children("graph"))
    if (const Result<void> added = add_graph(graphs, *xml, graph); !added) return tl::unexpected(added.error());
  if (graphs.gpus.empty()) return xml->fail_at(xml->root(), "", "", "has no channel with a GPU");
  if (graphs.best_inside == 0) return xml->fail_at(xml->root(), "", "", "has no graph with channels and a rate");

  ImportedTopology imported;
  imported.format = "NCCL graph XML";
  Cluster& cluster = imported.cluster;
  cluster.node = node_of(graphs);
  cluster.gpu = std::string(kGpuFacts[0].name);
  const bool has_nics = cluster.node.nics > 0;
  cluster.fabric = has_nics ? FabricKind::fat_tree : FabricKind::none;
  if (has_nics) cluster.tiers = {{"fabric", 0, 1, {}}};
  if (!has_nics) cluster.max_nodes = 1;
  imported.found = std::move(graphs.found);
  imported.found.emplace_back("channels", graphs.channels);
  imported.notes = {"rates are those of the channels that NCCL's search found, not of the hardware",
                    fmt::format("the file names neither GPU nor CPU: taken as {} and intel", kGpuFacts[0].name)};
  if (graphs.nvlink)
    imported.notes.push_back(fmt::format("the file has no PCIe rate: taken as {}", to_text(cluster.node.pcie)));
  return imported;
}

bool is_nccl_topology(std::string_view content, std::string_view) { return has_root(content, "system"); }

bool is_nccl_graph(std::string_view content, std::string_view) { return has_root(content, "graphs"); }

}  // namespace

const Importer kNcclTopology{"nccl-topology",
                             "NCCL's topology XML (NCCL_TOPO_DUMP_FILE, or shipped by a cloud): one node",
                             "topology_import.md", is_nccl_topology, read_nccl_topology};
const Importer kNcclGraph{"nccl-graph", "NCCL's graph XML (NCCL_GRAPH_DUMP_FILE): channels in one node",
                          "topology_import.md", is_nccl_graph, read_nccl_graph};

}  // namespace tracecast
