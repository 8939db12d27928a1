#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/integers.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {
namespace {

constexpr int kNicsPerRouter = 16;  // Slingshot: 16 of a router's 64 ports (docs/references.md#frontier)

}  // namespace

DragonflyFabric::DragonflyFabric(const Cluster& cluster) {
  const FabricTier& group = cluster.tiers.front();
  const int nodes = std::max(1, cluster.nodes());
  group_nodes_ = group.nodes;
  groups_ = ceil_div(nodes, group_nodes_);
  nics_ = cluster.node.nics * cluster.node.hosts();
  const int group_nics = group_nodes_ * std::max(1, nics_);
  routers_ = cluster.shape.routers > 0 ? cluster.shape.routers : ceil_div(group_nics, kNicsPerRouter);
  nics_per_router_ = ceil_div(group_nics, routers_);
  // As many cables to every other group of the machine, built or not, as its taper leaves.
  const int others = std::max(1, ceil_div(std::max(cluster.max_nodes, nodes), group_nodes_) - 1);
  const double cables = group_nics / group.oversubscription / others;
  global_ =
      cluster.shape.global_links > 0 ? cluster.shape.global_links : std::max(1, static_cast<int>(std::lround(cables)));
  rate_ = cluster.node.nic_rate;
  local_latency_ = {group.hop_latency.picoseconds / 4};
  global_latency_ = group.hop_latency - local_latency_ * 2;
}

int DragonflyFabric::local_link(int from, int to) const {
  return from * (routers_ - 1) + to % routers_ - (to % routers_ > from % routers_ ? 1 : 0);
}

int DragonflyFabric::global_link(int from_group, int to_group, int i) const {
  const int other = to_group - (to_group > from_group ? 1 : 0);
  return local_links() + (from_group * (groups_ - 1) + other) * global_ + i;
}

int DragonflyFabric::port(int group, int other, int i) const {
  const int index = other - (other > group ? 1 : 0);
  return group * routers_ + (index * global_ + i) % routers_;
}

FabricLink DragonflyFabric::link(int index) const {
  if (index < local_links()) {
    const int from = index / (routers_ - 1);
    const int place = index % (routers_ - 1);
    const int to = from / routers_ * routers_ + place + (place >= from % routers_ ? 1 : 0);
    return {from, to, 0, 1, rate_, local_latency_};
  }
  const int global = index - local_links();
  const int pair = global / global_;
  const int from = pair / (groups_ - 1);
  const int place = pair % (groups_ - 1);
  const int to = place + (place >= from ? 1 : 0);
  return {port(from, to, global % global_), port(to, from, global % global_), 1, 1, rate_, global_latency_};
}

int DragonflyFabric::attached(int node, int nic) const {
  const int group = node / group_nodes_;
  return group * routers_ + (node % group_nodes_ * nics_ + nic) / nics_per_router_;
}

FabricPath DragonflyFabric::path(int from, int to, const PathSelector& selector) const {
  FabricPath path;
  path.switches = from == to ? 1 : 2;
  if (from == to) return path;
  const int left = from / routers_;
  const int right = to / routers_;
  if (left == right) {
    path.loads.push_back({local_link(from, to), kWholeFlow});
    path.latency = local_latency_;
    return path;
  }
  std::vector<int> paths(static_cast<std::size_t>(global_));
  std::iota(paths.begin(), paths.end(), 0);
  if (selector.hashed) paths = {selector.pick(global_, 0)};
  path.latency = global_latency_;
  const std::int64_t weight = kWholeFlow / static_cast<std::int64_t>(paths.size());
  for (const int i : paths) {
    const int out = port(left, right, i);
    const int in = port(right, left, i);
    if (out != from) path.loads.push_back({local_link(from, out), weight});
    path.loads.push_back({global_link(left, right, i), weight});
    if (in != to) path.loads.push_back({local_link(in, to), weight});
    const int hops = (out != from ? 1 : 0) + (in != to ? 1 : 0);
    path.switches = std::max(path.switches, 2 + hops);
    path.latency = std::max(path.latency, global_latency_ + local_latency_ * hops);
  }
  return path;
}

}  // namespace tracecast
