#include "sim/network/host_collectives.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr double kGlooRate = 1.1e9;      ///< bytes/s of one TCP connection; see the header
constexpr double kGlooLatencyS = 30e-6;  ///< of one TCP message with its thread wake-ups; an assumption
constexpr double kMpiLatencyS = 3e-6;    ///< of one MPI message on top of the NIC's; an assumption
constexpr double kSpread = 0.5;          ///< relative standard deviation, for the assumptions

double bytes_per_second(Bandwidth rate) { return static_cast<double>(rate.bytes_per_second); }

int rounds(Collective collective, int ranks) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (ranks - 1);
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return ranks - 1;
    case Collective::broadcast:
      return static_cast<int>(std::ceil(std::log2(ranks)));
    case Collective::send_recv:
      break;
  }
  return 1;
}

/// NICs of the rank that sends out of its node: of each rank in an all-to-all, else of the one at the end of the node's part of
/// the ring, whose connection uses one.
double nics_of_sender(Collective collective, const GroupPlacement& group) {
  return collective == Collective::all_to_all ? group.nics_per_rank : std::min(1.0, group.ring_end_nics);
}

/// Bytes/s that one rank sends.
double rank_rate(const Cluster& cluster, Collective collective, const GroupPlacement& group) {
  const double pcie = bytes_per_second(cluster.node.pcie);
  const double nics = nics_of_sender(collective, group);
  const double share = nics * bytes_per_second(cluster.node.nic_rate) / group.uplink_slowdown();
  const double between = group.nodes > 1 ? share : pcie;
  return cluster.backend == Backend::gloo ? std::min(kGlooRate, between) : std::min(pcie, between);
}

}  // namespace

CollectiveCost host_collective(const Cluster& cluster, const CollectiveCall& call, const GroupPlacement& group) {
  TRACECAST_ASSERT(cluster.backend != Backend::nccl && group.ranks > 1, "host collectives are gloo's and MPI's");
  const bool gloo = cluster.backend == Backend::gloo;
  const double size = static_cast<double>(call.size.count);
  const double wire = group.nodes > 1 ? seconds(cluster.node.nic_latency + group.extra_latency) : 0;
  const double latency = (gloo ? kGlooLatencyS : kMpiLatencyS) + wire;
  const double sent = bus_bandwidth(call.collective, group.ranks, call.size, from_seconds(1));
  const double copies = gloo ? 2 * size / bytes_per_second(cluster.node.pcie) : 0;
  CollectiveCost cost;
  cost.duration = from_seconds(rounds(call.collective, group.ranks) * latency +
                               sent / rank_rate(cluster, call.collective, group) + copies);
  cost.spread = kSpread;
  cost.algorithm = Algorithm::ring;
  cost.protocol = Protocol::simple;
  cost.provenance = Provenance::analytic;
  return cost;
}

}  // namespace tracecast
