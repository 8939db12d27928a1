#include "tools/accuracy/rows/row_machine.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/io/json_document.hpp"
#include "sim/network/cluster.hpp"
#include "tools/accuracy/rows/gpu_names.hpp"
#include "tools/accuracy/rows/network_words.hpp"
#include "tools/accuracy/rows/row_part.hpp"
#include "tools/accuracy/rows/software_age.hpp"

namespace tracecast::accuracy {
namespace {

/// The same in any case, but "4x HDR" is neither in "4x HDR100" nor in "14x HDR".
bool has_words(std::string_view text, std::string_view words) {
  const std::string small = lower_case(text), wanted = lower_case(words);
  const std::size_t at = small.find(wanted);
  if (at == std::string::npos || words.empty()) return at != std::string::npos;
  const std::size_t end = at + wanted.size();
  return (at == 0 || !is_letter_or_digit(small[at - 1])) && (end >= small.size() || !is_digit(small[end]));
}

/// More GPUs in one host are a misprint.
constexpr int kMaxGpus = 64;

bool only_pcie(const ReportedMachine& reported) {
  const std::string links = lower_case(reported.links_in_node);
  for (const char* faster : {"nvlink", "nvswitch", "nvl", "sxm", "xgmi", "infinity"})
    if (affirms(links, faster)) return false;
  return contains(links, "pcie") && !contains(lower_case(reported.gpu), "sxm");
}

/// Sets the GPUs of one host, with their share of NICs.
void adapt_gpus(NodeSpec& node, int gpus) {
  const int before = node.gpus_per_host;
  const bool rack = node.gpus > before;
  if (gpus < 1 || gpus > kMaxGpus || gpus == before || rack) return;
  node.nics =
      node.nics == 0 ? 0 : std::max(1, static_cast<int>(std::lround(static_cast<double>(node.nics) * gpus / before)));
  node.gpus = node.gpus_per_host = gpus;
  if (gpus > 4 || node.link != IntraLink::nvswitch) return;
  node.link = IntraLink::nvlink_mesh;  // up to four GPUs are connected without a switch
  node.nvls = false;
  node.nvswitches = 1;
}

/// Gives a machine without NICs a non-blocking network, with the latency of InfiniBand in the shipped topologies.
void connect_nodes(Cluster& cluster) {
  cluster.fabric = FabricKind::fat_tree;
  cluster.tiers = {FabricTier{"fabric", 0, 1, {}}};
  cluster.node.nic_latency = Duration{1'500'000};
}

/// True if the rate is that of the node: reported so, or higher than a NIC of the reference system ("EFA 3200Gb/s").
bool of_whole_node(const ReportedNetwork& network, const NodeSpec& node) {
  if (network.nics > 0 || network.of == ReportedNetwork::Rate::gpu) return false;
  return network.of != ReportedNetwork::Rate::nic || (node.nics > 0 && network.rate > node.nic_rate);
}

void adapt_network(Cluster& cluster, const ReportedNetwork& network) {
  NodeSpec& node = cluster.node;
  const bool of_gpu = network.of == ReportedNetwork::Rate::gpu;
  int nics = network.nics > 0 ? network.nics : of_gpu ? node.gpus_per_host : std::max(1, node.nics);
  if (network.each_gpu && network.nics < node.gpus_per_host) nics *= node.gpus_per_host;
  std::int64_t rate = network.rate.bytes_per_second;
  if (network.of == ReportedNetwork::Rate::rack) rate /= std::max(1, node.gpus / node.gpus_per_host);
  if (of_whole_node(network, node)) rate /= nics;
  if (rate < 1) return;
  const double before = static_cast<double>(node.nics) * static_cast<double>(node.nic_rate.bytes_per_second);
  const double now = static_cast<double>(nics) * static_cast<double>(rate);
  if (std::abs(now - before) <= 0.01 * before) return;
  if (node.nics == 0) connect_nodes(cluster);
  node.nics = nics;
  node.nic_rate.bytes_per_second = rate;
}

class MachineReader : RowPart {
 public:
  explicit MachineReader(RowReading& row) : RowPart(row) {}

  void read() {
    Scenario& s = result_.scenario;
    const ReportedMachine reported_machine{text("gpu"),
                                           fields_.number("gpu_mem_gb", 0),
                                           gpus_per_node(),
                                           text("intra_node_link"),
                                           text("inter_node_link"),
                                           text("framework")};
    const std::int64_t ranks = fields_.required_size("gpu_count");
    const MachineClass* machine = find_machine(reported_machine);
    if (machine == nullptr) add_error("gpu", "unknown GPU (allowed: " + known_gpus() + ")");
    if (failed()) return;
    Result<Cluster> cluster = library_.topology(machine->topology);
    if (!cluster) return add_error("gpu", "the topology of its machine cannot be read");
    s.topology = machine->topology;
    s.cluster = std::move(*cluster);
    s.profile_name = machine->profile;
    Result<Profile> profile = library_.profile(s.profile_name.empty() ? s.cluster.gpu : s.profile_name);
    if (!profile) return add_error("gpu", "its profile cannot be read");
    s.profile = std::move(*profile);
    adapt_memory(s.profile, memory_of(reported_machine));
    s.cluster.world_size = static_cast<int>(std::min<std::int64_t>(ranks, kMostGpus));
    s.cluster.max_nodes = 0;  // a machine of this kind, of any size
    limit_pcie(s.cluster.node, s.profile);
    if (only_pcie(reported_machine) && s.cluster.node.link != IntraLink::pcie)
      assume(fmt::format("'{}': no board of {} is known, so its GPUs are connected as in {}",
                         shortened(text("intra_node_link")), text("gpu"), machine->topology));
    if (s.cluster.node.link == IntraLink::pcie && contains(s.profile.gpu, "SXM"))
      assume(fmt::format("boards with PCIe: at the rates of {}", s.profile.gpu));
    adapt_rack(s.cluster.node);
    if (std::string changed = adapt_node(s.cluster, reported_machine, machine->by_network); !changed.empty())
      assume(std::move(changed));
    if (!reported("gpus_per_node") && reported_machine.gpus_per_node == s.cluster.node.gpus)
      assume(fmt::format("GPUs per node not reported: {}, of gpu_count and nodes", s.cluster.node.gpus));
    if (s.cluster.node.nics == 0 && s.cluster.world_size > s.cluster.node.gpus)
      return add_error("inter_node_link",
                       fmt::format("must say how nodes of {} GPUs are connected", s.cluster.node.gpus));
    if (!machine->by_network) assume_network(*machine);
    prepare(s);
  }

 private:
  /// Those of a column, else as many as there are to each of `nodes`. A single node may have more than the run uses.
  int gpus_per_node() {
    constexpr int kUsual = 8;
    const int ranks = fields_.small_count("gpu_count", 0), nodes = fields_.small_count("nodes", 0);
    if (reported("gpus_per_node") || nodes == 0 || ranks % nodes != 0) return fields_.small_count("gpus_per_node", 0);
    return nodes > 1 || ranks > kUsual ? ranks / nodes : 0;
  }

  /// "GB200 NVL4", "NVL36x2": a smaller scale-up domain than the usual rack of that GPU.
  void adapt_rack(NodeSpec& node) {
    for (const char* column : {"gpu", "intra_node_link"}) {
      const std::string small = lower_case(text(column));
      int gpus = 0;  // the number behind the first "nvl" that has one; "nvlink" has none
      for (std::size_t at = small.find("nvl"); at != std::string::npos && gpus == 0; at = small.find("nvl", at + 1))
        gpus = number_after(small.substr(at), "nvl");
      if (gpus < node.gpus_per_host || gpus >= node.gpus || gpus % node.gpus_per_host != 0) continue;
      assume(fmt::format("NVL{}: NVLink connects {} GPUs; otherwise a rack of {}", gpus, gpus, node.gpus));
      node.nvswitches = std::max(1, node.nvswitches * gpus / node.gpus);
      node.gpus = gpus;
    }
  }

  void assume_network(const MachineClass& machine) {
    const std::string& words = text("inter_node_link");
    if (words.empty() || words.find("not printed") != std::string::npos)
      assume(fmt::format("network between nodes not reported: {}", machine.topology));
    else if (!reported_network(words) && result_.scenario.cluster.world_size > result_.scenario.cluster.node.gpus)
      assume(fmt::format("no rate read in '{}': the network of {}", shortened(words), machine.topology));
  }

  /// A part with less or more memory than that of the profile, "H100 64 GB".
  void adapt_memory(Profile& profile, double gigabytes) {
    constexpr double kOther = 0.15, kGiB = 1024.0 * 1024 * 1024;
    const double bytes = std::min(gigabytes, 10'000.0) * kGiB;
    if (bytes <= 0 || std::abs(bytes / static_cast<double>(profile.memory.count) - 1) < kOther) return;
    profile.memory = Bytes{std::llround(bytes)};
    assume(fmt::format("memory of {:g} GB as reported; otherwise {}", gigabytes, profile.name));
  }

  void prepare(Scenario& s) {
    s.gpu_spread = kGpuSpread;
    std::optional<Stack> stack;
    if (stack_ != nullptr) stack = *stack_;
    if (stack)
      for (std::string& said : apply_software_age(*stack, s.profile, framework_, fields_)) assume(std::move(said));
    prepare_profile(s.profile, stack ? &*stack : nullptr, s.model.moe.has_value(), std::max(1, s.cluster.world_size),
                    s.gpu_spread);
  }
};

}  // namespace

const MachineClass* find_machine(const ReportedMachine& reported) {
  std::string part = gpu_name(reported.gpu).part;
  if (only_pcie(reported) && is_part(part + "-PCIE")) part += "-PCIE";
  if (affirms(reported.links_in_node, "NVL72")) part = part_in_rack(part);
  const double memory = memory_of(reported);
  const std::string framework = lower_case(reported.framework);
  const std::string network = reported.links_between_nodes + " " + reported.gpu;
  const auto has_gpus = [&](int gpus) {
    if (gpus <= 0) return gpus == 0 || -gpus == reported.gpus_per_node;
    return reported.gpus_per_node == 0 || gpus == reported.gpus_per_node;
  };
  const auto fits = [&](const MachineEntry& each) {
    return part == each.gpu && has_words(network, each.network) && framework.starts_with(each.framework) &&
           (each.memory_gb == 0 || each.memory_gb == memory) && has_gpus(each.gpus_per_node);
  };
  const auto found = std::ranges::find_if(machine_table(), fits);
  return found == machine_table().end() ? nullptr : &found->machine;
}

double memory_of(const ReportedMachine& reported) {
  const GpuName gpu = gpu_name(reported.gpu);
  return reported.memory_gb > 0 && is_gpu_memory(reported.memory_gb, gpu.part) ? reported.memory_gb : gpu.memory_gb;
}

std::string adapt_node(Cluster& cluster, const ReportedMachine& reported, bool by_network) {
  const NodeSpec before = cluster.node;
  adapt_gpus(cluster.node, reported.gpus_per_node);
  const std::optional<ReportedNetwork> network = reported_network(reported.links_between_nodes);
  if (network && !by_network) adapt_network(cluster, *network);
  const NodeSpec& node = cluster.node;
  if (node.gpus_per_host == before.gpus_per_host && node.nics == before.nics && node.nic_rate == before.nic_rate)
    return "";
  return fmt::format("nodes of {} GPUs and {} NICs of {:.0f} Gb/s, as reported or in proportion; otherwise {}",
                     node.gpus_per_host, node.nics, static_cast<double>(node.nic_rate.bytes_per_second) / 125e6,
                     cluster.name);
}

void read_row_machine(RowReading& row) { MachineReader(row).read(); }

}  // namespace tracecast::accuracy
