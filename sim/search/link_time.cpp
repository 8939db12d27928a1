#include "sim/search/link_time.hpp"

#include <algorithm>

#include "sim/graph/link_users.hpp"
#include "sim/network/cluster_links.hpp"

namespace tracecast {
namespace {

constexpr double kPicosecondsPerSecond = 1e12;

double rate(Bandwidth bandwidth) { return static_cast<double>(bandwidth.bytes_per_second); }

/// Bytes of one member.
struct Moved {
  double gpu_out = 0;
  double gpu_in = 0;
  double port = 0;
};

Moved moved_in_nvls(const CollectiveCall& call, const GroupPlacement& group) {
  const auto all = static_cast<double>(call.size.count);
  const double part = all / group.ranks;
  const bool reduces = call.collective != Collective::all_gather;
  const bool gathers = call.collective != Collective::reduce_scatter;
  return {(reduces ? all : 0) + (gathers ? part : 0), (reduces ? part : 0) + (gathers ? all : 0), 0};
}

Moved moved(const CollectiveCall& call, Algorithm algorithm, const GroupPlacement& group) {
  const auto all = static_cast<double>(call.size.count);
  const double n = group.ranks;
  const double k = group.ranks_per_node;
  const bool several = group.nodes > 1;
  switch (algorithm) {
    case Algorithm::ring: {
      if (call.collective == Collective::broadcast) return {};
      const double sent = bus_bandwidth(call.collective, group.ranks, call.size, from_seconds(1));
      const double inside = several ? sent * (k - 1) / k : sent;
      return {inside, inside, several ? sent / k : 0};
    }
    case Algorithm::nvls:
      return several ? Moved{} : moved_in_nvls(call, group);
    case Algorithm::tree:
    case Algorithm::nvls_tree:
      return {0, 0, several && call.collective == Collective::all_reduce ? all / k : 0};
    case Algorithm::pat:
      return {0, 0, several ? all * (n - 1) / n : 0};
    case Algorithm::direct:
      if (call.collective != Collective::all_to_all) return {};
      return {all * (k - 1) / n, all * (k - 1) / n, all * (n - k) / n};
    default:
      return {};
  }
}

}  // namespace

LinkTimes::LinkTimes(const Cluster& cluster, const std::string& architecture) {
  Cluster evenly = cluster;  // the capacities of GPUs and ports do not depend on the paths between them
  evenly.routing = RoutingPolicy::even;
  const ClusterLinks links(evenly, architecture);
  gpu_ps_ = kPicosecondsPerSecond / rate(links.capacity(0));
  if (links.ports() == 0) return;
  const double gpus_per_port = static_cast<double>(links.gpus()) / links.ports();
  const double port = rate(links.capacity(2 * links.gpus()));
  port_ps_ = gpus_per_port * kPicosecondsPerSecond / port;
  // Messages reach direct_bandwidth of the line rate, which may be more than a flow's share of a link.
  message_ps_ = port_ps_ * std::min(1.0, kWireEfficiency / cluster.tuning.direct_bandwidth);
}

LinkTime LinkTimes::of(const CollectiveCall& call, const CollectiveCost& cost, const GroupPlacement& group) const {
  const bool even = group.ranks == group.nodes * group.ranks_per_node;
  if (!even || !loads_links(call, cost, static_cast<std::size_t>(group.ranks))) return {};
  const auto moving = static_cast<double>((cost.duration - cost.latency).picoseconds);
  const Moved bytes = moved(call, cost.algorithm, group);
  return {std::min(bytes.gpu_out * gpu_ps_, moving), std::min(bytes.gpu_in * gpu_ps_, moving),
          std::min(bytes.port * port_ps_, moving)};
}

LinkTime LinkTimes::of_message(Bytes size) const {
  return {0, 0, size > kLoadsNothing ? static_cast<double>(size.count) * message_ps_ : 0};
}

}  // namespace tracecast
