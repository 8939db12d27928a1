/// The analytic network model: NCCL's own choice, its duration corrected per fabric; point-to-point by ports.
///
/// Point-to-point calls are not in NCCL's model. A rank's port is the slower of what leaves over NVLink (or PCIe) and
/// what leaves over its share of the group's NICs; both run at the same time:
///
///   t = start + max(inside / link, outside / share of the NICs)      inside + outside = (n-1)/n size for all_to_all
///
/// start  one LL ring base (what nccl-tests shows for tiny send_recv), 0.3 us per further peer inside a node, and the
///        LL network hop once per message that the NICs of a rank have to post
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/host_collectives.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {
namespace {

constexpr double kDirectBaseUs = 6.6;  ///< NCCL's LL base latency
constexpr double kPeerUs = 0.3;        ///< per further peer: nccl_intranode alltoall, 2 to 8 ranks of A100 to B200
constexpr double kNetworkHopUs = 5.0;  ///< NCCL's LL network hop between single ranks
constexpr double kPostUs = 1.0;        ///< NCCL's cost of posting one message to a NIC
constexpr double kDirectChannels =
    16;  ///< thread blocks of send_recv and all_to_all: half of NCCL's usual 32 p2p channels

double bytes(Bytes size) { return static_cast<double>(size.count); }

bool is_direct(Collective collective) {
  return collective == Collective::all_to_all || collective == Collective::send_recv;
}

class AnalyticNetwork final : public NetworkModel {
 public:
  AnalyticNetwork(const Cluster& cluster, const std::string& architecture)
      : cluster_(cluster), architecture_(nccl_architecture(architecture)) {}

  CollectiveCost cost(const CollectiveCall& call, const GroupPlacement& group) const override {
    CollectiveCost cost;
    cost.spread = cluster_.tuning.residual;
    cost.provenance = cluster_.tuning.data.empty() ? Provenance::analytic : Provenance::interpolated;
    if (group.ranks <= 1) return cost;
    TRACECAST_ASSERT(group.nodes == 1 || group.nics > 0, "a group over several nodes has NICs");
    if (cluster_.backend != Backend::nccl) return host_collective(cluster_, call, group);
    if (is_direct(call.collective)) {
      cost.algorithm = Algorithm::direct;
      cost.protocol = Protocol::simple;
      cost.channels = static_cast<int>(kDirectChannels);
      cost.duration = from_seconds(direct_us(call, group) * 1e-6);
      cost.latency = from_seconds(direct_latency_us(call, group) * 1e-6);
      return cost;
    }
    const NcclCommunicator communicator = nccl_communicator(cluster_, group, architecture_);
    const NcclCost chosen = choose(communicator, call);
    cost.algorithm = chosen.algorithm;
    cost.protocol = chosen.protocol;
    cost.channels = nccl_channels(chosen, call.size);
    cost.duration = from_seconds(time_us(communicator, chosen, call, group) * 1e-6);
    cost.latency = from_seconds(latency_us(communicator, chosen, call, group) * 1e-6);
    return cost;
  }

 private:
  static NcclCost choose(const NcclCommunicator& communicator, const CollectiveCall& call) {
    const NcclCost* best = nullptr;
    double best_time = 0;
    const std::vector<NcclCost> candidates =
        nccl_candidates(communicator, call.collective, call.algorithm, call.protocol);
    for (const NcclCost& candidate : candidates) {
      const double time = nccl_time_us(communicator, candidate, call.collective, call.size);
      if (best != nullptr && time >= best_time) continue;
      best = &candidate;
      best_time = time;
    }
    TRACECAST_ASSERT(best != nullptr, "no algorithm and protocol can run this collective");
    return *best;
  }

  double bandwidth_factor(const NcclCost& cost, const GroupPlacement& group) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    if (group.nodes > 1) return tuning.net_bandwidth;
    if (cost.protocol != Protocol::simple) return 1;
    return tuning.*row_of(cost.algorithm).domain_bandwidth;
  }

  /// Bytes whose transfer time is added for filling the pipeline.
  double fill(Bytes size, const GroupPlacement& group) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    if (group.nodes > 1) return (tuning.net_mid_size - 1) * bytes(std::min(size, tuning.net_mid_limit));
    return (tuning.mid_size - 1) * bytes(std::min(size, tuning.mid_limit));
  }

  /// GB/s of algbw: a ring cannot exceed the rate of its NICs, whatever factor was fitted to other groups.
  double ring_limit(const CollectiveCall& call, const GroupPlacement& group) const {
    const double slowdown = std::max(1.0, group.oversubscription * group.crossing);
    const double wire = group.nics * static_cast<double>(cluster_.node.nic_rate.bytes_per_second) * 1e-9;
    const double sent = bus_bandwidth(call.collective, group.ranks, {1}, from_seconds(1));  // bytes per byte of size
    return kWireEfficiency * wire / slowdown / sent;
  }

  double network_hops_us(const NcclCost& cost, double slack, const GroupPlacement& group) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    const double factor = cost.protocol == Protocol::simple ? tuning.net_hop_latency : tuning.net_ll_latency;
    double hops = factor * slack * cost.inter_us;
    const bool single_ring = row_of(cost.algorithm).is_ring && group.ranks_per_node == 1;
    if (single_ring && tuning.ring_step_us > 0) hops = std::min(hops, cost.inter_hops * tuning.ring_step_us);
    return hops + cost.inter_hops * microseconds(group.extra_latency);
  }

  double copy_us(const CollectiveCall& call, const GroupPlacement& group) const {
    const double rate = static_cast<double>(cluster_.tuning.copy_bandwidth.bytes_per_second);
    if (rate == 0 || call.collective == Collective::broadcast || call.collective == Collective::send_recv) return 0;
    const double passes = call.collective == Collective::all_reduce ? 0.5 : 1;
    return passes * bytes(call.size) / group.ranks / rate * 1e6;
  }

  double latency_us(const NcclCommunicator& communicator, const NcclCost& cost, const CollectiveCall& call,
                    const GroupPlacement& group) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    const double slack = nccl_latency_factor(communicator, cost, call.collective, call.size);
    return slack * (tuning.base_latency * cost.base_us + tuning.hop_latency * cost.intra_us) +
           network_hops_us(cost, slack, group);
  }

  double time_us(const NcclCommunicator& communicator, const NcclCost& cost, const CollectiveCall& call,
                 const GroupPlacement& group) const {
    const double latency = latency_us(communicator, cost, call, group);
    double rate = cost.bandwidth * nccl_bandwidth_factor(cost, call.size) * bandwidth_factor(cost, group);
    if (row_of(cost.algorithm).is_ring && group.nodes > 1) rate = std::min(rate, ring_limit(call, group));
    const bool fills = cost.protocol == Protocol::simple && row_of(cost.algorithm).fill_is_missing;
    return latency + (bytes(call.size) + (fills ? fill(call.size, group) : 0)) / (1000 * rate) + copy_us(call, group);
  }

  /// Microseconds for `size` bytes out of one GPU inside its domain.
  double inside_us(double size, const GroupPlacement& group) const {
    return size / (1000 * nccl_gpu_rate(cluster_.node, group, architecture_) * cluster_.tuning.direct_link);
  }

  /// Microseconds for `size` bytes out of one GPU over its share of the group's NICs.
  double outside_us(double size, const GroupPlacement& group) const {
    const double slowdown = std::max(1.0, group.oversubscription * group.crossing);
    const double share =
        group.nics / group.ranks_per_node * static_cast<double>(cluster_.node.nic_rate.bytes_per_second);
    return size * slowdown / (share * cluster_.tuning.direct_bandwidth) * 1e6;
  }

  /// Peers that a rank sends to, inside its domain and outside.
  struct Peers {
    int inside = 0;
    int outside = 0;
  };

  static Peers peers(const CollectiveCall& call, const GroupPlacement& group) {
    if (call.collective == Collective::send_recv) return {group.nodes == 1 ? 1 : 0, group.nodes == 1 ? 0 : 1};
    return {group.ranks_per_node - 1, group.ranks - group.ranks_per_node};
  }

  double direct_latency_us(const CollectiveCall& call, const GroupPlacement& group) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    const Peers to = peers(call, group);
    const double start = tuning.base_latency * (kDirectBaseUs + kPeerUs * std::max(0, to.inside - 1));
    if (to.outside == 0) return start;
    return start + tuning.net_ll_latency * (kNetworkHopUs + tuning.net_latency_us + kPostUs * (to.outside - 1)) +
           microseconds(group.extra_latency);
  }

  double direct_us(const CollectiveCall& call, const GroupPlacement& group) const {
    const double slower = 1 + fill(call.size, group) / std::max(1.0, bytes(call.size));
    const double to_one = call.collective == Collective::send_recv ? bytes(call.size) : bytes(call.size) / group.ranks;
    const Peers to = peers(call, group);
    const double moving_inside = to.inside > 0 ? inside_us(to_one * to.inside, group) : 0;
    const double moving_outside = to.outside > 0 ? outside_us(to_one * to.outside, group) : 0;
    return direct_latency_us(call, group) + std::max(moving_inside, moving_outside) * slower + copy_us(call, group);
  }

  Cluster cluster_;
  NcclArchitecture architecture_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_analytic_network(const Cluster& cluster, const std::string& architecture) {
  return std::make_unique<AnalyticNetwork>(cluster, architecture);
}

std::string unsupported_reason(const Cluster& cluster, const std::string& architecture, const CollectiveCall& call,
                               const GroupPlacement& group) {
  const std::string name = to_string(call.collective);
  if (group.nodes > 1 && cluster.node.nics == 0) return "this machine has no network between its nodes";
  if (is_direct(call.collective)) {
    const bool fits = call.algorithm == Algorithm::automatic || call.algorithm == Algorithm::direct;
    return fits && (call.protocol == Protocol::automatic || call.protocol == Protocol::simple)
               ? ""
               : name + " is sent directly between ranks with protocol simple: there is no other algorithm";
  }
  if (group.ranks <= 1) return "";
  const NcclCommunicator communicator = nccl_communicator(cluster, group, nccl_architecture(architecture));
  if (!nccl_candidates(communicator, call.collective, call.algorithm, call.protocol).empty()) return "";
  const std::string algorithm = to_string(call.algorithm);
  if (call.algorithm != Algorithm::automatic) {
    const CollectiveAlgorithm& row = row_of(call.algorithm);
    if (row.tune == nullptr) return algorithm + " is for all_to_all and send_recv";
    const char* missing = row.missing_hardware == nullptr ? nullptr : row.missing_hardware(cluster);
    if (missing != nullptr) return algorithm + " needs " + missing;
  }
  return fmt::format("{} with protocol {} cannot run {} on {} ranks of {} nodes", algorithm, to_string(call.protocol),
                     name, group.ranks, group.nodes);
}

}  // namespace tracecast
