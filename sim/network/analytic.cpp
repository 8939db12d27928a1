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
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/host_collectives.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "sim/network/network_model.hpp"
#include "sim/network/sites.hpp"

namespace tracecast {
namespace {

constexpr double kDirectBaseUs = 6.6;  ///< NCCL's LL base latency
constexpr double kPeerUs = 0.3;        ///< per further peer: nccl_intranode alltoall, 2 to 8 ranks of A100 to B200
constexpr double kNetworkHopUs = 5.0;  ///< NCCL's LL network hop between single ranks
constexpr double kPostUs = 1.0;        ///< NCCL's cost of posting one message to a NIC
/// Of a NIC's line rate what messages of DeepEP and HybridEP reach, several KB of tokens each: EP 64 on H800, EP 32 and 64 on H100.
/// docs/references.md#deepep-forwarding, docs/references.md#hybridep-rates
constexpr double kDispatcherWire = 0.89;
constexpr double kDirectChannels =
    16;  ///< thread blocks of send_recv and all_to_all: half of NCCL's usual 32 p2p channels

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

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
    const Tuner tuner{*this, communicator, call, group};
    const Choice choice = tuner.fastest_from(call.size);
    cost.algorithm = choice.cost->algorithm;
    cost.protocol = choice.cost->protocol;
    cost.channels = nccl_channels(*choice.cost, call.size);
    cost.duration = from_seconds(choice.time_us * 1e-6);
    cost.latency = from_seconds(latency_us(communicator, *choice.cost, tuner.sized(choice.size), group) * 1e-6);
    return cost;
  }

 private:
  struct Choice {
    const NcclCost* cost = nullptr;
    Bytes size;
    double time_us = 0;
  };

  /// NCCL's choice by its own estimates, with the corrected time, for one communicator and any size.
  ///
  /// NCCL keeps an algorithm and protocol up to the size at which its estimate of another is lower. Where the corrections say that
  /// the other is faster already, the corrected time would fall there. No library takes longer for a part of a message than for
  /// the message, so the time is that of the smallest message of at least this size, if that takes less.
  class Tuner {
   public:
    Tuner(const AnalyticNetwork& network, const NcclCommunicator& communicator, CollectiveCall call,
          const GroupPlacement& group)
        : network_(network),
          communicator_(communicator),
          call_(call),
          group_(group),
          candidates_(nccl_candidates(communicator, call.collective, call.algorithm, call.protocol)) {
      TRACECAST_ASSERT(!candidates_.empty(), "no algorithm and protocol can run this collective");
    }

    CollectiveCall sized(Bytes size) const {
      CollectiveCall call = call_;
      call.size = size;
      return call;
    }

    /// Raises the size until every candidate takes longer than the best so far, and looks at each size at which the choice
    /// changes.
    Choice fastest_from(Bytes size) const {
      constexpr std::int64_t kLargest = std::int64_t{1} << 50;
      Choice best = choice_at(size);
      const NcclCost* before = best.cost;
      for (Bytes low = size; low.count < kLargest && lowest_us(low) < best.time_us;) {
        const Bytes high{low.count + std::max<std::int64_t>(1, low.count / 4)};
        for (Bytes from = low; before != chosen(high);) {
          from = first_change(from, high);
          const Choice next = choice_at(from);
          if (next.time_us < best.time_us) best = next;
          before = next.cost;
        }
        low = high;
      }
      return best;
    }

   private:
    Choice choice_at(Bytes size) const {
      const NcclCost* cost = chosen(size);
      return {cost, size, network_.time_us(communicator_, *cost, sized(size), group_)};
    }

    const NcclCost* chosen(Bytes size) const {
      const auto estimate = [&](const NcclCost& candidate) {
        return nccl_time_us(communicator_, candidate, call_.collective, size);
      };
      return &*std::ranges::min_element(candidates_, {}, estimate);
    }

    double lowest_us(Bytes size) const {
      double lowest = kUnlimited;
      for (const NcclCost& each : candidates_)
        lowest = std::min(lowest, network_.time_us(communicator_, each, sized(size), group_));
      return lowest;
    }

    /// The first size after `low`, at most `high`, at which the choice is not that of `low`.   Requires the choices to differ
    Bytes first_change(Bytes low, Bytes high) const {
      const NcclCost* before = chosen(low);
      while (high.count - low.count > 1) {
        const Bytes middle{low.count + (high.count - low.count) / 2};
        (chosen(middle) == before ? low : high) = middle;
      }
      return high;
    }

    const AnalyticNetwork& network_;
    const NcclCommunicator& communicator_;
    CollectiveCall call_;
    const GroupPlacement& group_;
    std::vector<NcclCost> candidates_;
  };

  double bandwidth_factor(const NcclCost& cost, const GroupPlacement& group) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    if (group.nodes > 1) return tuning.net_bandwidth;
    if (cost.protocol != Protocol::simple) return 1;
    return tuning.*row_of(cost.algorithm).domain_bandwidth;
  }

  /// Bytes whose transfer time is added for filling the pipeline; `share`: how many of the measured group's channels fill.
  double fill(Bytes size, const GroupPlacement& group, double share) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    if (group.nodes > 1) return (tuning.net_mid_size - 1) * std::min(bytes(size), share * bytes(tuning.net_mid_limit));
    return (tuning.mid_size - 1) * bytes(std::min(size, tuning.mid_limit));
  }

  /// Channels of a ring or tree over those of the measured groups, which had whole nodes: they grow with the NICs that the group
  /// uses on the node where it has the fewest, and beyond eight GPUs with its ranks in a domain.
  double share_of_channels(const GroupPlacement& group) const {
    const double nics = std::min(1.0, group.nics / std::max(1, cluster_.node.nics));
    const double ranks = static_cast<double>(group.ranks_per_node) / kGpusOfANode;
    return ranks > 1 ? std::max(nics, ranks) : nics;
  }

  /// GB/s of algbw that the NICs of the busiest node allow, whatever factor was fitted to other groups.
  double nic_limit(const CollectiveAlgorithm& algorithm, const CollectiveCall& call,
                   const GroupPlacement& group) const {
    if (group.nodes == 1 || algorithm.busiest_node == nullptr) return kUnlimited;
    const double wire = group.nics * static_cast<double>(cluster_.node.nic_rate.bytes_per_second) * 1e-9;
    return kWireEfficiency * wire / algorithm.busiest_node(call.collective, group);
  }

  /// GB/s of the links from one GPU to the other ranks of its domain; 0: it has none of its own.
  double links_of_gpu(const GroupPlacement& group) const {
    const NodeSpec& node = cluster_.node;
    const double all = static_cast<double>(node.gpu_link.bytes_per_second) * 1e-9;
    return is_mesh(node.link) && node.gpus > 1 ? all * (group.ranks_per_node - 1) / (node.gpus - 1) : all;
  }

  /// The same for the links of the busiest GPU: in a group of several nodes, or on a ring inside one.
  double gpu_limit(const CollectiveAlgorithm& algorithm, const CollectiveCall& call,
                   const GroupPlacement& group) const {
    const double gpu = links_of_gpu(group);
    if (gpu <= 0 || group.ranks_per_node == 1) return kUnlimited;
    if (group.nodes == 1 && algorithm.is_ring) return gpu / algorithm.busiest_node(call.collective, group);
    return group.nodes > 1 && algorithm.busiest_gpu != nullptr ? gpu / algorithm.busiest_gpu(group) : kUnlimited;
  }

  /// 0: one rank per node, 1: all of its GPUs.
  double share_of_whole_node(const GroupPlacement& group) const {
    const double others = std::min(kGpusOfANode, cluster_.node.gpus) - 1;
    return others > 0 ? std::min(1.0, (group.ranks_per_node - 1) / others) : 0;
  }

  double network_hops_us(const NcclCost& cost, double slack, const GroupPlacement& group) const {
    const CollectiveTuning& tuning = cluster_.tuning;
    const double factor = cost.protocol == Protocol::simple ? tuning.net_hop_latency : tuning.net_ll_latency;
    double hops = factor * slack * cost.inter_us;
    if (row_of(cost.algorithm).is_ring && tuning.ring_step_us > 0) {
      const Duration nic = cluster_.reference.nic.value_or(cluster_.node.nic_latency);
      const double step = std::max(tuning.ring_step_us, microseconds(nic));
      const double single = std::min(hops, cost.inter_hops * step);
      hops = single + (hops - single) * share_of_whole_node(group);
    }
    return std::max(0.0, hops + cost.inter_hops * slower_nic_us()) + tier_hops_us(cost, group);
  }

  /// Latency of the tiers that the group leaves. A ring passes from each site to the next once in a lap, a tree on the levels
  /// above the sites; their other hops stay inside one.
  double tier_hops_us(const NcclCost& cost, const GroupPlacement& group) const {
    const Sites& sites = cluster_.sites;
    if (!spans_sites(cluster_, group)) return cost.inter_hops * microseconds(group.extra_latency);
    const double nodes = group.nodes;
    const double touched = std::min(nodes, static_cast<double>(sites.count));
    const double share = row_of(cost.algorithm).is_ring ? touched / nodes : std::log2(touched) / std::log2(nodes);
    const double crossings = std::max(1.0, cost.inter_hops * share);
    return cost.inter_hops * microseconds(group.extra_latency - sites.wan_latency) +
           crossings * microseconds(sites.wan_latency);
  }

  /// By which a hop inside a domain takes longer than on the machine that NCCL's constants are for.
  double slower_link_us() const {
    const std::optional<Duration>& reference = cluster_.reference.link;
    return reference ? microseconds(cluster_.node.link_latency) - microseconds(*reference) : 0;
  }

  /// The same for a hop between domains.
  double slower_nic_us() const {
    const std::optional<Duration>& reference = cluster_.reference.nic;
    return reference ? microseconds(cluster_.node.nic_latency) - microseconds(*reference) : 0;
  }

  double inside_hops_us(const NcclCost& cost) const {
    return std::max(0.0, cluster_.tuning.hop_latency * cost.intra_us + cost.intra_hops * slower_link_us());
  }

  double copy_us(const CollectiveCall& call, const GroupPlacement& group) const {
    const double rate = static_cast<double>(cluster_.tuning.copy_bandwidth.bytes_per_second);
    if (rate == 0 || call.collective == Collective::broadcast || call.collective == Collective::send_recv) return 0;
    if (call.link_share > 0) return 0;  // a dispatcher's kernel copies its rank's own tokens while it sends the others
    const double passes = call.collective == Collective::all_reduce ? 0.5 : 1;
    return passes * bytes(call.size) / group.ranks / rate * 1e6;
  }

  double latency_us(const NcclCommunicator& communicator, const NcclCost& cost, const CollectiveCall& call,
                    const GroupPlacement& group) const {
    const double slack = nccl_latency_factor(communicator, cost, call.collective, call.size);
    const double inside = slack * (cluster_.tuning.base_latency * cost.base_us + inside_hops_us(cost));
    if (group.nodes == 1) return inside;
    return inside + cluster_.tuning.net_call_us + network_hops_us(cost, slack, group);
  }

  double time_us(const NcclCommunicator& communicator, const NcclCost& cost, const CollectiveCall& call,
                 const GroupPlacement& group) const {
    const double latency = latency_us(communicator, cost, call, group);
    const CollectiveAlgorithm& algorithm = row_of(cost.algorithm);
    const double corrected = cost.bandwidth * nccl_bandwidth_factor(cost, call.size) * bandwidth_factor(cost, group);
    const double inside = cost.inside > 0 ? cluster_.tuning.*algorithm.domain_bandwidth * cost.inside : kUnlimited;
    const double nics = nic_limit(algorithm, call, group);
    const double rate = std::min({corrected, inside, nics, gpu_limit(algorithm, call, group)});
    const double uplinks = nics / (algorithm.is_tree ? group.tree_slowdown : group.uplink_slowdown());
    // The correction of pipelines that fill was measured at the rate of NICs: they do not fill slower for a slow uplink.
    const bool fills = cost.protocol == Protocol::simple && algorithm.fill_is_missing;
    const double filling = fills ? fill(call.size, group, share_of_channels(group)) / rate : 0;
    return latency + (bytes(call.size) / std::min(rate, uplinks) + filling) / 1000 + copy_us(call, group);
  }

  /// Microseconds for `size` bytes out of one GPU inside its domain. A message uses the links between two GPUs.
  double inside_us(double size, const CollectiveCall& call, GroupPlacement group) const {
    if (call.link_share > 0 && cluster_.node.link == IntraLink::nvswitch)
      return size / (call.link_share * static_cast<double>(cluster_.node.gpu_link.bytes_per_second)) * 1e6;
    if (call.collective == Collective::send_recv) group.ranks_per_node = 2;
    return size / (1000 * nccl_gpu_rate(cluster_.node, group, architecture_) * cluster_.tuning.direct_link);
  }

  /// Microseconds for `size` bytes out of one GPU over so many NICs, of whose line rate messages reach `wire`.
  double outside_us(double size, double wire, double slowdown, double nics) const {
    const double rate = nics * static_cast<double>(cluster_.node.nic_rate.bytes_per_second);
    return size / (rate * std::min(wire, 1 / slowdown)) * 1e6;
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
    if (to.outside == 0) return std::max(0.0, start + slower_link_us());
    const int posts =
        call.forwarded.count > 0 ? group.nodes - 1 : to.outside;  // to the rank of the same number in each domain
    const double hop = tuning.net_ll_latency * (kNetworkHopUs + tuning.net_latency_us + kPostUs * (posts - 1));
    return start + std::max(0.0, hop + slower_nic_us()) + microseconds(group.extra_latency);
  }

  double direct_us(const CollectiveCall& call, const GroupPlacement& group) const {
    const bool forwards = call.forwarded.count > 0;
    const bool to_one_only = call.collective == Collective::send_recv;
    const double slower =
        forwards || call.link_share > 0 ? 1 : 1 + fill(call.size, group, 1) / std::max(1.0, bytes(call.size));
    const double to_one = to_one_only ? bytes(call.size) : bytes(call.size) / group.ranks;
    const Peers to = peers(call, group);
    const double inside = forwards ? bytes(call.forwarded) : to_one * to.inside;
    const double moving_inside = to.inside > 0 ? inside_us(inside, call, group) : 0;
    const double outside = to_one_only ? to.outside : group.outside_peers;
    const double wire = forwards ? kDispatcherWire : cluster_.tuning.direct_bandwidth;
    const double nics = to_one_only ? group.ring_end_nics : group.nics_per_rank;
    const double uplinks = to_one_only ? group.uplink_slowdown() : group.all_to_all_slowdown;
    const double moving_outside = to.outside > 0 ? outside_us(to_one * outside, wire, uplinks, nics) : 0;
    const double limit = static_cast<double>(call.limit.bytes_per_second);
    const double kernels = limit > 0 ? bytes(call.size) / limit * 1e6 : 0;
    const double moving = std::max(std::max(moving_inside, moving_outside) * slower, kernels);
    return direct_latency_us(call, group) + moving + copy_us(call, group);
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
    const char* missing = row.missing_hardware == nullptr ? nullptr : row.missing_hardware(cluster, group.nodes);
    if (missing != nullptr) return algorithm + " needs " + missing;
  }
  return fmt::format("{} with protocol {} cannot run {} on {} ranks of {} nodes", algorithm, to_string(call.protocol),
                     name, group.ranks, group.nodes);
}

}  // namespace tracecast
