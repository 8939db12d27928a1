#include "sim/network/nccl_tuning.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// Microseconds for LL, LL128, Simple.
using ByProtocol = std::array<double, 3>;
constexpr ByProtocol kNoLatency{0, 0, 0};

constexpr ByProtocol kBaseTree{6.8, 14.0, 8.4};
constexpr ByProtocol kBaseRing{6.6, 14.0, 8.4};
constexpr ByProtocol kBasePat{8.0, 8.0, 8.0};

/// Latency of one hop by kind of link.
struct HopLatency {
  ByProtocol nvlink, pcie, network;
};
constexpr HopLatency kHopTree{{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}};
constexpr HopLatency kHopRing{{0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}};
constexpr HopLatency kHopCollnetDirect{{0, 0, 3.7}, {0, 0, 3.7}, {0, 0, 31.0}};
constexpr HopLatency kHopCollnetChain{{0, 0, 2.8}, {0, 0, 2.8}, {0, 0, 30.0}};
constexpr HopLatency kHopNvls{{0, 0, 25.0}, kNoLatency, {0, 0, 18.0}};
constexpr HopLatency kHopNvlsTree{{0, 0, 25.0}, kNoLatency, {0, 0, 20.9}};
constexpr HopLatency kHopPat{{0, 0, 4.0}, {0, 0, 4.0}, {0, 0, 14.0}};

/// Bandwidth limits of one channel, GB/s, for one, two, and more nodes; and of all channels together for LL.
struct Limits {
  ByProtocol ring_ll128, tree_ll128, tree, nvls_tree;
  double nvls_efficiency;
  double ll_one_node;
};
constexpr Limits kVolta{{20, 20, 20}, {20, 20, 20}, {26.5, 18.5, 10}, {26.5, 18.5, 10}, 0, 39};
constexpr Limits kAmpere{{20, 20, 20}, {20, 20, 20}, {24, 23.6, 17.8}, {24, 23.6, 17.8}, 0, 87.7};
constexpr Limits kHopper{{36.7, 36.7, 36.7}, {36.7, 36.7, 29}, {38.7, 41.4, 36}, {0, 57.7, 45.5}, 0.85, 141};
constexpr Limits kBlackwell{{40, 40, 40}, {55.6, 31.67, 20}, {70, 42.8, 24}, {0, 96, 80}, 0.74, 282};

const Limits& limits(NcclArchitecture architecture) {
  switch (architecture) {
    case NcclArchitecture::volta:
      return kVolta;
    case NcclArchitecture::ampere:
      return kAmpere;
    case NcclArchitecture::hopper:
      return kHopper;
    case NcclArchitecture::blackwell:
      return kBlackwell;
  }
  return kAmpere;
}

/// Share of the vendor's NVLink rate that NCCL counts on: 20 of 25, 20.6 of 25, 40.1 of 50 GB/s per link.
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
constexpr std::array<double, 16> kLadderInterOld{48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4};
constexpr std::array<double, 18> kLadderInterHopper{48, 45, 42, 40, 30, 24, 22, 20,  17.5,
                                                    15, 12, 10, 6,  5,  4,  3,  2.4, 1.2};
constexpr std::array<double, 16> kLadderInterBlackwell{96, 86, 80, 48,   45.1, 42, 40, 30,
                                                       24, 22, 20, 17.5, 15,   12, 6,  3};
constexpr int kMaxChannels = 16;  ///< before doubling
constexpr int kUsualChannels = 12;

std::span<const double> ladder_intra(NcclArchitecture architecture) {
  if (architecture == NcclArchitecture::hopper) return kLadderIntraHopper;
  if (architecture == NcclArchitecture::blackwell) return kLadderIntraBlackwell;
  return kLadderIntraOld;
}

std::span<const double> ladder_inter(NcclArchitecture architecture) {
  if (architecture == NcclArchitecture::hopper) return kLadderInterHopper;
  if (architecture == NcclArchitecture::blackwell) return kLadderInterBlackwell;
  return kLadderInterOld;
}

/// The fastest step of the ladder that `rate` carries; the rate itself where it is slower than all of them.
double step_below(std::span<const double> ladder, double rate) {
  for (const double step : ladder)
    if (step <= rate) return step;
  return rate;
}

/// Channels that fill a link of `total` GB/s best.
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

double giga(Bandwidth rate) { return static_cast<double>(rate.bytes_per_second) * 1e-9; }

/// GB/s that the group may send from one of its nodes.
double node_rate(const NodeSpec& node, const GroupPlacement& group, NcclArchitecture architecture) {
  const double slowdown = std::max(1.0, group.oversubscription * group.crossing);
  return group.nics * step_below(ladder_inter(architecture), giga(node.nic_rate)) / slowdown;
}

int inter_channels(const GroupPlacement& group) {
  return std::clamp(static_cast<int>(group.nics + 1e-9), 1, kMaxChannels);
}

/// One head per GPU of the node, or per NIC's channel; each at the ladder's step.
NcclGraph nvls_graph(double gpu, double network, const GroupPlacement& group, NcclArchitecture architecture) {
  const int heads = std::min(group.ranks_per_node, kMaxChannels);
  if (heads < 2) return {};
  return {heads, step_below(ladder_intra(architecture), gpu / heads), network / heads};
}

std::size_t index(Protocol protocol) {
  TRACECAST_ASSERT(protocol != Protocol::automatic, "NCCL's model needs a protocol");
  return static_cast<std::size_t>(protocol) - static_cast<std::size_t>(Protocol::ll);
}

std::size_t nodes_index(int nodes) { return static_cast<std::size_t>(std::min(nodes, 3) - 1); }

double log2_floor(int n) { return std::floor(std::log2(static_cast<double>(n))); }

/// The pieces that all algorithms share.
struct Context {
  const NcclCommunicator& comm;
  Collective collective;
  Protocol protocol;
  std::size_t p;

  double intra(const HopLatency& hop) const { return comm.pcie ? hop.pcie[p] : hop.nvlink[p]; }
  /// With one rank per node NCCL takes the tree's value for every algorithm.
  double inter(const HopLatency& hop) const {
    const double network = comm.ranks_per_node == 1 ? kHopTree.network[p] : hop.network[p];
    return network + comm.plugin_latency_us * (protocol == Protocol::simple ? 2 : 1);
  }
  /// Posting a message to the NIC.
  double overhead() const {
    if (comm.nodes == 1) return 0;
    return (comm.amd_cpu ? 2.0 : 1.0) * (protocol == Protocol::simple ? 3 : 1);
  }
  double ll_limit() const {
    if (comm.nodes == 1) return limits(comm.architecture).ll_one_node;
    if (comm.amd_cpu) return comm.nodes == 2 ? 22.5 : 19;
    return comm.nodes == 2 ? 39 : 20.4;
  }
  double bus(const NcclGraph& graph) const { return graph.channels * (comm.nodes <= 2 ? graph.intra : graph.inter); }
  double cap(const ByProtocol& by_nodes, const NcclGraph& graph) const {
    return graph.channels * by_nodes[nodes_index(comm.nodes)];
  }
  bool is(Collective c) const { return collective == c; }
  bool gathers() const { return is(Collective::all_gather) || is(Collective::reduce_scatter); }
  int steps() const {
    if (is(Collective::all_reduce)) return 2 * (comm.ranks - 1);
    return is(Collective::broadcast) ? comm.ranks : comm.ranks - 1;
  }
};

void ring(const Context& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.ring;
  double bus = c.bus(graph);
  if (c.protocol == Protocol::ll) bus = std::min(c.ll_limit(), 0.5 * bus);
  if (c.protocol == Protocol::ll128) bus = std::min(0.92 * bus, c.cap(limits(c.comm.architecture).ring_ll128, graph));
  cost.channels = graph.channels;
  cost.bandwidth = bus * c.comm.ranks / c.steps();
  cost.base_us = kBaseRing[c.p];
  if (c.is(Collective::broadcast)) {  // pipelined: one hop counts
    (c.comm.nodes > 1 ? cost.inter_us : cost.intra_us) = c.comm.nodes > 1 ? c.inter(kHopRing) : c.intra(kHopRing);
    cost.inter_hops = c.comm.nodes > 1 ? 1 : 0;
    return;
  }
  cost.inter_hops = c.comm.nodes == 1 ? 0 : (c.is(Collective::all_reduce) ? 2 : 1) * (c.comm.nodes - 1);
  cost.intra_us = (c.steps() - cost.inter_hops) * std::max(c.intra(kHopRing), c.overhead());
  cost.inter_us = cost.inter_hops * c.inter(kHopRing);
}

void tree(const Context& c, NcclCost& cost) {
  if (!c.is(Collective::all_reduce)) return;
  const NcclGraph& graph = c.comm.tree;
  const Limits& limit = limits(c.comm.architecture);
  double bus = std::min(0.92 * c.bus(graph), c.cap(limit.tree, graph));
  if (c.protocol == Protocol::ll) bus = std::min(bus / 3.8, c.ll_limit());
  if (c.protocol == Protocol::ll128)
    bus = std::min(bus * (c.comm.nodes == 1 ? 7.0 / 9 : 120.0 / 128), c.cap(limit.tree_ll128, graph));
  cost.channels = graph.channels;
  cost.bandwidth = bus * 0.5;
  cost.base_us = kBaseTree[c.p];
  cost.inter_hops = 2 * static_cast<int>(log2_floor(c.comm.nodes));
  cost.intra_us = 2 * (static_cast<double>(c.comm.ranks) / c.comm.nodes - 1) * c.intra(kHopTree);
  cost.inter_us = cost.inter_hops * c.inter(kHopTree);
}

void nvls(const Context& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.nvls;
  const bool as_tree = cost.algorithm == Algorithm::nvls_tree;
  if (c.protocol != Protocol::simple || graph.channels < 2 || c.comm.pcie) return;
  if (as_tree ? c.comm.nodes == 1 || !c.is(Collective::all_reduce)
              : (c.comm.nodes > 1 && c.comm.collnet.channels == 0) || !(c.is(Collective::all_reduce) || c.gathers()))
    return;
  const Limits& limit = limits(c.comm.architecture);
  const double ranks = c.comm.ranks_per_node;
  double speed = graph.intra * limit.nvls_efficiency * (graph.channels - 1) / graph.channels;
  speed *= c.is(Collective::all_reduce) ? 2 : (ranks - 1) / ranks;
  if (c.comm.nodes > 1) speed = std::min(speed, graph.inter * (as_tree && c.comm.nodes == 2 ? 2 : 1));
  if (as_tree) speed = std::min(speed, limit.nvls_tree[nodes_index(c.comm.nodes)]);
  const HopLatency& hop = as_tree ? kHopNvlsTree : kHopNvls;
  cost.channels = graph.channels;
  cost.bandwidth = graph.channels * speed * c.comm.ranks / c.steps();
  cost.intra_us = c.intra(hop);
  cost.inter_hops = c.comm.nodes == 1 ? 0 : as_tree ? 2 * static_cast<int>(log2_floor(c.comm.nodes)) : 1;
  cost.inter_us = cost.inter_hops * c.inter(hop);
}

void collnet_direct(const Context& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.collnet;
  if (c.protocol != Protocol::simple || graph.channels == 0 || c.comm.nodes == 1) return;
  const double ranks = c.comm.ranks_per_node;
  const bool new_gpu =
      c.comm.architecture == NcclArchitecture::hopper || c.comm.architecture == NcclArchitecture::blackwell;
  if (c.is(Collective::all_reduce)) {
    const double factor = (1 + ranks / graph.channels) / 2;
    cost.bandwidth = graph.channels * graph.intra / factor * (new_gpu ? 0.85 : 1) * 0.5;
  } else if (c.gathers()) {
    cost.bandwidth = ranks * std::min(graph.intra, 0.9 * graph.inter) * 0.5;
  } else {
    return;
  }
  cost.channels = graph.channels;
  cost.intra_us = 2 * (std::min(1.0, ranks - 1) * c.intra(kHopCollnetDirect) + (ranks - 1) * 0.4);
  cost.inter_hops = 1;
  cost.inter_us = c.inter(kHopCollnetDirect);
}

void collnet_chain(const Context& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.collnet;
  if (c.protocol != Protocol::simple || graph.channels == 0 || c.comm.nodes == 1 || !c.is(Collective::all_reduce))
    return;
  cost.channels = graph.channels;
  cost.bandwidth = graph.channels * graph.intra * 0.5;
  cost.intra_us = 2 * (c.comm.ranks_per_node - 1) * c.intra(kHopCollnetChain);
  cost.inter_hops = 1;
  cost.inter_us = c.inter(kHopCollnetChain);
}

void pat(const Context& c, NcclCost& cost) {
  if (c.protocol != Protocol::simple || !c.gathers() || c.comm.ranks_per_node != 1 || c.comm.nodes == 1) return;
  const NcclGraph& graph = c.comm.ring;
  cost.channels = graph.channels;
  cost.bandwidth = 0.75 * c.bus(graph) * c.comm.ranks / c.steps();
  cost.base_us = kBasePat[c.p];
  cost.intra_us = 2.8 * c.comm.ranks;
  cost.inter_hops = static_cast<int>(log2_floor(c.comm.nodes));
  cost.inter_us = cost.inter_hops * c.inter(kHopPat) / 3.5;
}

/// Factors on the bandwidth of trees at 64 B x 2^i.
constexpr std::array<double, 24> kTreeLl{1,  1,  1,  1,  .9, .8, .7, .7, .7, .7, .6, .5,
                                         .4, .4, .5, .6, .7, .8, .9, 1,  1,  1,  1,  1};
constexpr std::array<double, 24> kTreeLl128{1,  1,  1,  1,  1,  .9, .8, .8, .8, .7, .6, .6,
                                            .6, .6, .6, .6, .8, .9, .9, .9, .9, 1,  1,  1};
constexpr std::array<double, 24> kTreeSimple{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                             .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9};

}  // namespace

NcclArchitecture nccl_architecture(std::string_view name) {
  if (name == "Volta") return NcclArchitecture::volta;
  if (name == "Hopper") return NcclArchitecture::hopper;
  if (name == "Blackwell") return NcclArchitecture::blackwell;
  return NcclArchitecture::ampere;
}

double nccl_gpu_rate(const NodeSpec& node, const GroupPlacement& group, NcclArchitecture architecture) {
  if (node.link == IntraLink::pcie || node.link == IntraLink::none) return giga(node.pcie);
  double rate = giga(node.gpu_link) * link_efficiency(architecture);
  const bool mesh = node.link == IntraLink::nvlink_mesh || node.link == IntraLink::xgmi;
  if (mesh && node.gpus > 1) rate *= static_cast<double>(std::max(1, group.ranks_per_node - 1)) / (node.gpus - 1);
  return rate;
}

std::string_view architecture_of_gpu(std::string_view gpu) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kFamilies{{{"v100", "Volta"},
                                                                                    {"a100", "Ampere"},
                                                                                    {"h100", "Hopper"},
                                                                                    {"h200", "Hopper"},
                                                                                    {"h800", "Hopper"},
                                                                                    {"b200", "Blackwell"},
                                                                                    {"b300", "Blackwell"},
                                                                                    {"gb", "Blackwell"},
                                                                                    {"rtx-pro", "Blackwell"}}};
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
    if (cluster.node.nvls) comm.nvls = nvls_graph(gpu, 0, group, architecture);
    return comm;
  }
  const double network = node_rate(cluster.node, group, architecture);
  const int channels = inter_channels(group);
  const double inside = group.ranks_per_node == 1 ? network : gpu;
  // A ring passes every GPU: 8 channels of 45, not 48, over 8 NDR NICs where NVLink counts 370.8 GB/s.
  const double flow = std::min(network / channels, step_below(ladder_inter(architecture), inside / channels));
  comm.ring = {channels, flow, flow};
  // Two nodes exchange each half of a tree once: twice the ring's rate, if the GPUs keep up.
  comm.tree = {channels, std::min(inside, 2 * network) / channels, flow};
  if (cluster.node.nvls) comm.nvls = nvls_graph(gpu, network, group, architecture);
  if (cluster.tuning.sharp) comm.collnet = {channels, std::min(inside, 2 * network) / channels, network / channels};
  return comm;
}

NcclCost nccl_cost(const NcclCommunicator& communicator, Collective collective, Algorithm algorithm,
                   Protocol protocol) {
  NcclCost cost;
  cost.algorithm = algorithm;
  cost.protocol = protocol;
  const Context context{communicator, collective, protocol, index(protocol)};
  if (protocol == Protocol::ll128 && !communicator.ll128) return cost;
  switch (algorithm) {
    case Algorithm::ring:
      ring(context, cost);
      break;
    case Algorithm::tree:
      tree(context, cost);
      break;
    case Algorithm::nvls:
    case Algorithm::nvls_tree:
      nvls(context, cost);
      break;
    case Algorithm::collnet_direct:
      collnet_direct(context, cost);
      break;
    case Algorithm::collnet_chain:
      collnet_chain(context, cost);
      break;
    case Algorithm::pat:
      pat(context, cost);
      break;
    case Algorithm::automatic:
    case Algorithm::direct:
      break;
  }
  return cost;
}

double nccl_ring_slack(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective, Bytes size) {
  const bool slow = cost.algorithm == Algorithm::ring && cost.protocol == Protocol::simple && communicator.nodes > 1 &&
                    collective == Collective::all_reduce &&
                    size.count / (static_cast<std::int64_t>(cost.channels) * communicator.ranks) >= 64;
  if (!slow) return 1;
  return communicator.architecture == NcclArchitecture::volta ? 1.9 : 1.4;
}

double nccl_tree_correction(const NcclCost& cost, Bytes size) {
  if (cost.algorithm != Algorithm::tree || size.count < 64) return 1;
  const std::array<double, 24>& table = cost.protocol == Protocol::ll      ? kTreeLl
                                        : cost.protocol == Protocol::ll128 ? kTreeLl128
                                                                           : kTreeSimple;
  const double position = std::log2(static_cast<double>(size.count) / 64);
  const auto below = static_cast<std::size_t>(position);
  if (below >= 23) return 1;
  const double share = position - static_cast<double>(below);
  const double above = below + 1 == 23 ? 1.0 : table[below + 1];
  return table[below] * (1 - share) + above * share;
}

double nccl_time_us(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective, Bytes size) {
  const double latency = cost.latency_us() * nccl_ring_slack(communicator, cost, collective, size);
  return latency + static_cast<double>(size.count) / (1000 * cost.bandwidth * nccl_tree_correction(cost, size));
}

std::vector<NcclCost> nccl_candidates(const NcclCommunicator& communicator, Collective collective, Algorithm algorithm,
                                      Protocol protocol) {
  std::vector<NcclCost> candidates;
  if (collective == Collective::all_to_all || collective == Collective::send_recv) return candidates;
  for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::nvls, Algorithm::nvls_tree,
                            Algorithm::collnet_direct, Algorithm::collnet_chain, Algorithm::pat}) {
    const bool considered =
        algorithm == Algorithm::automatic ? a != Algorithm::pat || communicator.pat : a == algorithm;
    if (!considered) continue;
    for (const Protocol p : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
      if (protocol != Protocol::automatic && p != protocol) continue;
      const NcclCost cost = nccl_cost(communicator, collective, a, p);
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
