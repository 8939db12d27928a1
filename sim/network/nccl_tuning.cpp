#include "sim/network/nccl_tuning.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "sim/base/result.hpp"
#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

/// Share of the vendor's NVLink rate that NCCL assumes: 20 of 25, 20.6 of 25, 40.1 of 50 GB/s per link.
double link_efficiency(NcclArchitecture architecture) {
  switch (architecture) {
    case NcclArchitecture::hopper:
      return 20.6 / 25;
    case NcclArchitecture::blackwell:
      return 40.1 / 50;
    default:
      return 20.0 / 25;
  }
}

constexpr std::array<double, 7> kLadderIntraOld{40, 30, 20, 18, 15, 12, 10};
constexpr std::array<double, 11> kLadderIntraHopper{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr std::array<double, 12> kLadderIntraBlackwell{90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
/// What NCCL's ladders of network speeds leave of the usual rates: 48 of 50 GB/s, 24 of 25, 12 of 12.5. The ladders have no steps
/// between these, but channels move as fast as the wire: so this share is taken of any rate.
constexpr double kShareOfNics = 0.96;
/// The same of the links of a node by rings over several nodes: 8 channels of 45 GB/s, where NCCL counts 46.35 for each (H100 with 8
/// NICs of 400 Gb/s), of 86 for 90.2 (B300), 7 channels of 48 for 51.2 (MI300X, which RCCL's tuning was fitted to); of A100's and A800's
/// links all.
double share_of_rings(NcclArchitecture architecture, IntraLink link) {
  if (link == IntraLink::xgmi) return 48 / 51.2;
  switch (architecture) {
    case NcclArchitecture::hopper:
      return 45 / 46.35;
    case NcclArchitecture::blackwell:
      return 86 / 90.225;
    default:
      return 1;
  }
}
constexpr int kMaxChannels = 16;  ///< before doubling
constexpr int kUsualChannels = 12;

std::span<const double> ladder_intra(NcclArchitecture architecture) {
  if (architecture == NcclArchitecture::hopper) return kLadderIntraHopper;
  if (architecture == NcclArchitecture::blackwell) return kLadderIntraBlackwell;
  return kLadderIntraOld;
}

/// The fastest step of the ladder that is at most `rate`; the rate itself if all steps are faster.
double step_below(std::span<const double> ladder, double rate) {
  for (const double step : ladder)
    if (step <= rate) return step;
  return rate;
}

/// The channels with the largest total rate on a link of `total` GB/s.
NcclGraph fill(std::span<const double> ladder, double total) {
  NcclGraph best{1, std::min(total, ladder.front()), 0};
  for (const double step : ladder) {
    const int channels = std::min(kMaxChannels, static_cast<int>(total / step));
    const double gain = channels * step - best.channels * best.intra;
    if (gain > 1e-9 || (gain > -1e-9 && best.channels < kUsualChannels && channels > best.channels))
      best = {channels, step, 0};
  }
  return best;
}

double total_rate(const NcclGraph& graph) { return graph.channels * graph.intra; }

double giga(Bandwidth rate) { return static_cast<double>(rate.bytes_per_second) * 1e-9; }

/// GB/s that the NICs of the group can send from one of its nodes. NCCL does not know the fabric behind them.
double node_rate(const NodeSpec& node, const GroupPlacement& group) {
  return group.nics * kShareOfNics * giga(node.nic_rate);
}

/// One per NIC, however slow it is: a slow NIC reduces the rate of each.
int inter_channels(const GroupPlacement& group) {
  const int nics = group.working_nics > 0 ? group.working_nics : static_cast<int>(group.nics + 1e-9);
  return std::clamp(nics, 1, kMaxChannels);
}

/// One head per GPU of the node, each with a rate of the ladder and, between nodes, the NIC of its GPU: of `nic` GB/s.
NcclGraph nvls_graph(double gpu, double network, double nic, const GroupPlacement& group,
                     NcclArchitecture architecture) {
  const int heads = std::min(group.ranks_per_node, kMaxChannels);
  if (heads < 2) return {};
  return {heads, step_below(ladder_intra(architecture), gpu / heads), std::min(network / heads, nic)};
}

std::size_t index(Protocol protocol) {
  TRACECAST_ASSERT(protocol != Protocol::automatic, "the protocol has been chosen");
  return static_cast<std::size_t>(protocol) - static_cast<std::size_t>(Protocol::ll);
}

}  // namespace

NcclArchitecture nccl_architecture(std::string_view name) {
  if (name == "Volta") return NcclArchitecture::volta;
  if (name == "Hopper") return NcclArchitecture::hopper;
  if (name == "Blackwell" || name == "Rubin") return NcclArchitecture::blackwell;
  return NcclArchitecture::ampere;
}

double nccl_gpu_rate(const NodeSpec& node, const GroupPlacement& group, NcclArchitecture architecture) {
  if (node.link == IntraLink::pcie || node.link == IntraLink::none) return giga(node.pcie);
  double rate = giga(node.gpu_link) * link_efficiency(architecture);
  if (is_mesh(node.link) && node.gpus > 1)
    rate *= static_cast<double>(std::max(1, group.ranks_per_node - 1)) / (node.gpus - 1);
  return rate;
}

std::string_view architecture_of_gpu(std::string_view gpu) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kFamilies{{{"v100", "Volta"},
                                                                                     {"a100", "Ampere"},
                                                                                     {"h100", "Hopper"},
                                                                                     {"h200", "Hopper"},
                                                                                     {"h800", "Hopper"},
                                                                                     {"b200", "Blackwell"},
                                                                                     {"b300", "Blackwell"},
                                                                                     {"gb", "Blackwell"},
                                                                                     {"rtx-pro", "Blackwell"},
                                                                                     {"vr", "Rubin"}}};
  for (const auto& [prefix, architecture] : kFamilies)
    if (gpu.substr(0, prefix.size()) == prefix) return architecture;
  return "";
}

NcclCommunicator nccl_communicator(const Cluster& cluster, const GroupPlacement& group, NcclArchitecture architecture) {
  NcclCommunicator comm;
  comm.architecture = architecture;
  comm.ranks = group.ranks;
  comm.nodes = group.nodes;
  comm.ranks_per_node = group.ranks_per_node;
  comm.pcie = cluster.node.link == IntraLink::pcie || cluster.node.link == IntraLink::none;
  comm.amd_cpu = cluster.node.cpu == CpuKind::amd;
  comm.plugin_latency_us = cluster.tuning.net_latency_us;
  comm.ll128 = !comm.pcie && (group.nodes == 1 || cluster.tuning.ll128);
  comm.pat = cluster.tuning.pat;
  const double gpu = nccl_gpu_rate(cluster.node, group, architecture);
  if (group.nodes == 1) {
    comm.ring = comm.tree = fill(ladder_intra(architecture), gpu);
    if (cluster.node.nvls) comm.nvls = nvls_graph(gpu, 0, 0, group, architecture);
    return comm;
  }
  const double network = node_rate(cluster.node, group);
  const int channels = inter_channels(group);
  const double inside = group.ranks_per_node == 1 ? network : gpu;
  const double flow =
      (group.ranks_per_node == 1 ? network : std::min(network, share_of_rings(architecture, cluster.node.link) * gpu)) /
      channels;
  comm.ring = {channels, flow, flow};
  if (group.ranks_per_node > 1 && (cluster.node.link == IntraLink::nvswitch || comm.pcie))
    comm.ring_inside = total_rate(fill(ladder_intra(architecture), gpu));
  // Two nodes exchange each half of a tree once: twice the ring's rate, if the GPUs keep up.
  comm.tree = {channels, std::min(inside, 2 * network) / channels, flow};
  if (cluster.node.nvls) comm.nvls = nvls_graph(gpu, network, giga(cluster.node.nic_rate), group, architecture);
  if (cluster.tuning.sharp) comm.collnet = {channels, std::min(inside, 2 * network) / channels, network / channels};
  return comm;
}

NcclCost nccl_cost(const NcclCommunicator& communicator, Collective collective, Algorithm algorithm,
                   Protocol protocol) {
  NcclCost cost;
  cost.algorithm = algorithm;
  cost.protocol = protocol;
  if (protocol == Protocol::ll128 && !communicator.ll128) return cost;
  const TunerContext context{communicator, collective, protocol, index(protocol)};
  if (const auto tune = row_of(algorithm).tune) tune(context, cost);
  return cost;
}

double nccl_latency_factor(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective,
                           Bytes size) {
  const auto factor = row_of(cost.algorithm).latency_factor;
  return factor == nullptr ? 1 : factor(communicator, cost, collective, size);
}

double nccl_bandwidth_factor(const NcclCost& cost, Bytes size) {
  const auto factor = row_of(cost.algorithm).bandwidth_factor;
  return factor == nullptr ? 1 : factor(cost, size);
}

double nccl_time_us(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective, Bytes size) {
  const double latency = cost.latency_us() * nccl_latency_factor(communicator, cost, collective, size);
  return latency + static_cast<double>(size.count) / (1000 * cost.bandwidth * nccl_bandwidth_factor(cost, size));
}

std::vector<NcclCost> nccl_candidates(const NcclCommunicator& communicator, Collective collective, Algorithm algorithm,
                                      Protocol protocol) {
  std::vector<NcclCost> candidates;
  if (collective == Collective::all_to_all || collective == Collective::send_recv) return candidates;
  for (const CollectiveAlgorithm* row : collective_algorithms()) {
    if (row->tune == nullptr) continue;
    const bool considered = algorithm == Algorithm::automatic
                                ? row->is_automatic == nullptr || row->is_automatic(communicator)
                                : row->value == algorithm;
    if (!considered) continue;
    for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
      if (protocol != Protocol::automatic && p != protocol) continue;
      const NcclCost cost = nccl_cost(communicator, collective, row->value, p);
      if (cost.bandwidth > 0) candidates.push_back(cost);
    }
  }
  return candidates;
}

int nccl_channels(const NcclCost& cost, Bytes size) {
  const std::int64_t threads = cost.protocol == Protocol::ll128 ? 640 : 512;
  const std::int64_t bytes_per_thread = cost.protocol == Protocol::simple ? 64 : 8;
  const std::int64_t wanted = size.count / (threads * bytes_per_thread);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, 2 * cost.channels));
}

}  // namespace tracecast
