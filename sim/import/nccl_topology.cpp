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
#include "sim/import/linked_groups.hpp"
#include "sim/import/possible_topology.hpp"
#include "sim/import/recognise.hpp"
#include "sim/import/xml_lines.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

constexpr int kDeepest = 64;

struct PciIds {
  std::string_view device;
  std::string_view gpu;
  bool with_links = true;      ///< the module has NVLinks or xGMI on its board; a PCIe card has them only with a bridge
  std::string_view part = "";  ///< its own name, of a part that is `gpu` with other memory
};
/// Source: docs/references.md#pci-ids
constexpr PciIds kDevices[] = {{"0x1db1", "v100-16gb"},
                               {"0x1db4", "v100-16gb", false},
                               {"0x1db5", "v100"},
                               {"0x1db6", "v100", false},
                               {"0x1db8", "v100"},
                               {"0x20b0", "a100-40gb"},
                               {"0x20b1", "a100-pcie", false},
                               {"0x20b2", "a100"},
                               {"0x20b5", "a100-pcie", false},
                               {"0x20f1", "a100-pcie", false},
                               {"0x20f3", "a800"},
                               {"0x20f5", "a800", false},
                               {"0x2235", "a40", false},
                               {"0x2321", "h100-nvl", false},
                               {"0x2324", "h800"},
                               {"0x2329", "h20"},
                               {"0x232c", "h20", true, "h20-3e"},
                               {"0x2330", "h100"},
                               {"0x2331", "h100-pcie", false},
                               {"0x2335", "h200"},
                               {"0x233b", "h200-nvl", false},
                               {"0x2342", "gh200"},
                               {"0x2348", "gh200", true, "gh200-144g-hbm3e"},
                               {"0x2684", "rtx-4090", false},
                               {"0x26b9", "l40s", false},
                               {"0x27b8", "l4", false},
                               {"0x2901", "b200"},
                               {"0x2941", "gb200"},
                               {"0x2bb5", "rtx-pro-6000", false},
                               {"0x738c", "mi100"},
                               {"0x740f", "mi210", false},
                               {"0x7408", "mi250x"},
                               {"0x740c", "mi250x"},
                               {"0x74a1", "mi300x"},
                               {"0x74a5", "mi325x"},
                               {"0x74b5", "mi300x"}};

/// AMD's architectures. RCCL writes `gcn` as gfx90a, or in old versions as a number (910); `sm` is then the number of
/// compute units, not an NVIDIA compute capability.
constexpr std::pair<std::string_view, std::string_view> kArchitectures[] = {
    {"908", "mi100"},  {"910", "mi250x"}, {"90a", "mi250x"}, {"940", "mi300x"},
    {"941", "mi300x"}, {"942", "mi300x"}, {"950", "mi355x"}};

/// Interfaces that are no hardware.
constexpr std::string_view kVirtual[] = {"docker", "veth",  "br-",          "virbr", "lo",    "tap",
                                         "vnet",   "cali",  "flannel",      "cni",   "tun",   "dummy",
                                         "kube",   "bond-", "nodelocaldns", "ovs",   "vxlan", "lxc"};

struct Gpu {
  std::string bus;
  std::string device;
  std::int64_t compute_capability = 0;  ///< of NVIDIA
  std::string architecture;             ///< of AMD: 908, 90a, 942
  Bandwidth pcie;
  std::string pcie_link;                      ///< "32.0 GT/s PCIe x16"
  std::map<std::string, std::int64_t> links;  ///< number of links by target
  bool xgmi = false;
};

struct Net {
  std::int64_t megabits = 0;  ///< 0: not said
  bool infiniband = false;
};

class NcclTopologyReader {
 public:
  explicit NcclTopologyReader(const XmlFile& xml) : xml_(xml) {}

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
    if (!pci_class.empty()) ++classes_;
    const pugi::xml_node gpu = pci.child("gpu");
    const bool by_class = pci_class.starts_with("0x0302") || pci_class.starts_with("0x0300") ||
                          (pci_class.starts_with("0x1200") && pci_ids(pci.attribute("device").value()) != nullptr);
    if (gpu || by_class) return read_gpu(pci, gpu);
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
    sparse_ = sparse_ || pci.attribute("vendor").empty();
    gpu.bus = pci.attribute("busid").value();
    gpu.device = pci.attribute("device").value();
    const auto width = xml_.integer(pci, "link_width", 0, 0, 64);
    if (!width) return tl::unexpected(width.error());
    gpu.pcie = pcie_rate(pci.attribute("link_speed").value(), *width);
    if (*width > 0) gpu.pcie_link = fmt::format("{} x{}", pci.attribute("link_speed").value(), *width);
    if (element) {
      ++elements_;
      const auto capability = xml_.integer(element, "sm", 0, 0, 1 << 20);
      if (!capability) return tl::unexpected(capability.error());
      const std::string_view architecture = element.attribute("gcn").value();
      gpu.architecture = architecture.substr(architecture.starts_with("gfx") ? 3 : 0);
      if (gpu.architecture.empty()) gpu.compute_capability = *capability;
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

  static const PciIds* pci_ids(std::string_view device) {
    const auto found =
        std::find_if(std::begin(kDevices), std::end(kDevices), [&](const PciIds& ids) { return ids.device == device; });
    return found == std::end(kDevices) ? nullptr : found;
  }

  std::int64_t most_links() const {
    std::int64_t most = 0;
    for (const Gpu& gpu : gpus_) {
      std::int64_t links = 0;
      for (const auto& [target, count] : gpu.links) links += count;
      most = std::max(most, links);
    }
    return most;
  }

  /// The GPU by its PCI id, else by AMD's architecture or NVIDIA's compute capability and links; nullptr: not one of the table.
  const GpuFacts* known_gpu() const {
    const Gpu& gpu = gpus_.front();
    const auto by = [](auto condition) -> const GpuFacts* {
      const auto found = std::find_if(std::begin(kGpuFacts), std::end(kGpuFacts), condition);
      return found == std::end(kGpuFacts) ? nullptr : found;
    };
    const auto named = [&by](std::string_view name) { return by([&](const GpuFacts& f) { return f.name == name; }); };
    if (const PciIds* ids = pci_ids(gpu.device)) return named(ids->gpu);
    for (const auto& [architecture, name] : kArchitectures)
      if (architecture == gpu.architecture) return named(name);
    if (!gpu.architecture.empty() || gpu.compute_capability == 0) return nullptr;
    const bool grace = cpu_ == CpuKind::grace;
    const auto fits = [&](const GpuFacts& f) {
      return !f.only_by_name && f.compute_capability == gpu.compute_capability && f.name.starts_with('g') == grace;
    };
    const std::int64_t links = most_links();
    const GpuFacts* const same = by([&](const GpuFacts& f) { return fits(f) && f.links == links; });
    return same != nullptr ? same : by(fits);
  }

  void note(std::string text) { imported_.notes.push_back(std::move(text)); }

  /// Known GPUs by name, others by what the file says of them. Errors: it says nothing.
  Result<GpuFacts> facts() {
    const Gpu& gpu = gpus_.front();
    std::set<std::string> kinds;
    for (const Gpu& each : gpus_) kinds.insert(each.device);
    for (const Gpu& each : gpus_)
      if (!each.pcie_link.empty() && !gpu.pcie_link.empty() && each.pcie_link != gpu.pcie_link) {
        note(fmt::format("not all GPUs have the PCIe link of the first, {}: {} has {}; all are taken as the first",
                         shortened(gpu.pcie_link), shortened(each.bus), shortened(each.pcie_link)));
        break;
      }
    if (kinds.size() > 1) note(fmt::format("GPUs of {} kinds: all are taken as the first", kinds.size()));
    imported_.cluster.gpu = !gpu.architecture.empty()    ? fmt::format("gfx{}", gpu.architecture)
                            : gpu.compute_capability > 0 ? fmt::format("sm-{}", gpu.compute_capability)
                                                         : "";
    if (const GpuFacts* known = known_gpu()) {
      imported_.cluster.gpu = std::string(known->name);
      if (const PciIds* ids = pci_ids(gpu.device); ids != nullptr && !ids->part.empty()) {
        imported_.cluster.gpu = std::string(ids->part);
        note(fmt::format("there is no profile of the GPU {}", ids->part));
      }
      return *known;
    }
    GpuFacts unknown{"", static_cast<int>(gpu.compute_capability), kGpuFacts[0].link, 0, gpu.pcie, kGpuFacts[0].nic};
    if (unknown.pcie.bytes_per_second == 0) unknown.pcie = kGpuFacts[0].pcie;
    if (!imported_.cluster.gpu.empty()) {
      note(fmt::format("the GPU is named {} by its architecture alone: there is no profile of that name",
                       imported_.cluster.gpu));
      return unknown;
    }
    const std::int64_t links = most_links();
    for (const GpuFacts& f : kGpuFacts) {
      if (f.only_by_name) continue;
      if (links != 0 && f.links != links) continue;
      if (links == 0 && f.pcie.bytes_per_second != gpu.pcie.bytes_per_second) continue;
      imported_.cluster.gpu = std::string(f.name);
      note(fmt::format("the file does not name the GPU: taken as {} by its {}", f.name,
                       links != 0 ? "links" : "PCIe rate"));
      return f;
    }
    if (gpu.device.empty()) {
      imported_.cluster.gpu = std::string(kGpuFacts[0].name);
      note(fmt::format("the file does not name the GPU: taken as {}", kGpuFacts[0].name));
      return kGpuFacts[0];
    }
    return xml_.fail_at(xml_.root(), "pci.device", gpu.device,
                        "is not a known GPU, and no <gpu> says its compute capability (sm) or architecture (gcn)");
  }

  std::vector<std::size_t> groups_on_links() const {
    return joined_groups(gpus_.size(), [this](std::size_t i, std::size_t j) {
      return gpus_[i].links.count(gpus_[j].bus) != 0 || gpus_[j].links.count(gpus_[i].bus) != 0;
    });
  }

  /// Links that join only some GPUs: a node of a topology is one such group if all have one size and each has NICs; otherwise its
  /// GPUs are on PCIe.
  void split_groups(NodeSpec& node) {
    std::map<std::size_t, int> sizes;
    for (const std::size_t group : groups_on_links()) ++sizes[group];
    const int groups = static_cast<int>(sizes.size());
    if (groups < 2 || (node.link != IntraLink::nvlink_mesh && node.link != IntraLink::xgmi) || most_links() == 0)
      return;
    const int gpus = sizes.begin()->second;
    const bool alike =
        std::all_of(sizes.begin(), sizes.end(), [gpus](const auto& each) { return each.second == gpus; });
    if (alike && gpus > 1 && node.nics > 0 && node.nics % groups == 0) {
      node.gpus = node.gpus_per_host = gpus;
      node.nics /= groups;
      note(fmt::format("links join {} groups of {} GPUs: each is taken as a node with {} of the NICs", groups, gpus,
                       node.nics));
      return;
    }
    note(take_groups_as_pcie(node, sizes.size()));
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
    const PciIds* const ids = pci_ids(gpus_.front().device);
    const bool module = ids == nullptr ? sparse_ : ids->with_links;
    if (most == 0 && gpus_.size() > 1 && facts.links > 0 && module) {
      node.link = facts.compute_capability == 0    ? IntraLink::xgmi
                  : facts.compute_capability <= 70 ? IntraLink::nvlink_mesh
                                                   : IntraLink::nvswitch;
      node.gpu_link = {facts.link.bytes_per_second * facts.links};
      note(fmt::format("the file has no NVLinks: taken as {} of {} {}", facts.links, to_text(facts.link),
                       node.link == IntraLink::nvswitch ? "to an NVSwitch" : "between the GPUs"));
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
    const std::vector<std::size_t> groups = groups_on_links();
    const auto group = static_cast<std::size_t>(std::count(groups.begin(), groups.end(), groups.front()));
    if (between_gpus && targets.size() > 1 && gpus_.front().links.size() + 1 < group)
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
    if (node.nics > 0) node.nic_latency = kAssumedNicLatency;
  }

  Result<ImportedTopology> topology() {
    Cluster& cluster = imported_.cluster;
    NodeSpec& node = cluster.node;
    const Result<GpuFacts> found = facts();
    if (!found) return tl::unexpected(found.error());
    const GpuFacts& known = *found;
    node.gpus = node.gpus_per_host = static_cast<int>(gpus_.size());
    node.nics = 0;
    join_gpus(known, node);
    add_nics(known, node);
    split_groups(node);
    node.link_latency = node.link == IntraLink::none ? Duration{} : kAssumedLinkLatency;
    node.nvls = node.link == IntraLink::nvswitch && known.compute_capability >= 90;
    node.pcie = gpus_.front().pcie;
    if (node.pcie.bytes_per_second == 0) {
      node.pcie = known.pcie;
      note(fmt::format("the file has no credible PCIe rate: taken as {}", to_text(node.pcie)));
    }
    if (cpu_ == CpuKind::grace && known.name.starts_with('g')) node.pcie = known.pcie;  // NVLink-C2C to the host
    if (node.link == IntraLink::nvswitch && known.name.starts_with("gb") && node.gpus == 4)
      note(
          "a rack joins the NVSwitches of 18 hosts, which the file of one host does not show: node.gpus = 72 and "
          "gpus_per_host = 4 describe it (topologies/gb200-nvl72.json)");
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
    for (const ImpossibleValue& each : impossible_values(cluster))
      return xml_.fail_at(xml_.root(), each.key, "", each.message);
    return std::move(imported_);
  }

  const XmlFile& xml_;
  std::optional<CpuKind> cpu_;
  std::int64_t cpus_ = 0, pcis_ = 0, classes_ = 0, elements_ = 0, nics_ = 0, nets_ = 0;
  bool sparse_ = false;  ///< a GPU's PCI device has no vendor: written by hand for a cloud, not dumped by NCCL
  std::vector<Gpu> gpus_;
  std::vector<Net> pci_nets_;    ///< NICs on PCI
  std::vector<Net> other_nets_;  ///< below a CPU
  ImportedTopology imported_;
};

Result<ImportedTopology> read_nccl_topology(std::string_view text, const std::string& file) {
  const Result<XmlFile> xml = XmlFile::parse(text, file, "system");
  if (!xml) return tl::unexpected(xml.error());
  return NcclTopologyReader(*xml).read();
}

bool is_nccl_topology(std::string_view content, std::string_view) { return has_root(content, "system"); }

}  // namespace

const Importer kNcclTopology{"nccl-topology",
                             "NCCL's topology XML (NCCL_TOPO_DUMP_FILE, or shipped by a cloud): one node",
                             "topology_import.md", is_nccl_topology, read_nccl_topology};

}  // namespace tracecast
