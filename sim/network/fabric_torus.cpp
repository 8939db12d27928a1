#include <algorithm>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {

TorusFabric::TorusFabric(const Cluster& cluster) {
  const int nodes = std::max(1, cluster.nodes());
  int inner = 1;
  for (const int length : cluster.shape.dimensions) inner *= length;
  TRACECAST_ASSERT(inner >= nodes, "a torus has a router for every node");
  for (const int length : cluster.shape.dimensions) {
    inner /= length;
    const int needed = routers_ > 1 ? length : std::min(length, ceil_div(nodes, inner));
    lengths_.push_back(needed);
    routers_ *= needed;
  }
  int stride = routers_;
  for (const int length : lengths_) {
    stride /= length;
    dimensions_.push_back({length, stride, ports_});
    ports_ += std::min(length - 1, 2);
  }
  rate_ = cluster.node.nic_rate;
  if (!cluster.tiers.empty()) hop_latency_ = cluster.tiers.front().hop_latency;
}

int TorusFabric::adjacent(int router, const Dimension& dimension, int step) const {
  const int place = router / dimension.stride % dimension.length;
  const int next = (place + step + dimension.length) % dimension.length;
  return router + (next - place) * dimension.stride;
}

FabricLink TorusFabric::link(int index) const {
  const int router = index / ports_;
  const int port = index % ports_;
  const auto of_port = [&](const Dimension& dimension) {
    return port >= dimension.port && port < dimension.port + std::min(dimension.length - 1, 2);
  };
  const auto dimension = std::find_if(dimensions_.begin(), dimensions_.end(), of_port);
  const int step = port == dimension->port ? 1 : -1;
  return {router, adjacent(router, *dimension, step), 0, 1, rate_, hop_latency_};
}

void TorusFabric::walk(const Dimension& dimension, int router, int steps, int direction, std::int64_t weight,
                       FabricPath& path) const {
  const int port = dimension.port + (direction < 0 && dimension.length > 2 ? 1 : 0);
  for (int i = 0; i < steps; ++i) {
    path.loads.push_back({router * ports_ + port, weight});
    router = adjacent(router, dimension, direction);
  }
}

void TorusFabric::travel(const Dimension& dimension, int& router, int target, const PathSelector& selector,
                         FabricPath& path) const {
  const int from = router / dimension.stride % dimension.length;
  const int to = target / dimension.stride % dimension.length;
  if (from == to) return;
  const int forwards = (to - from + dimension.length) % dimension.length;
  const int backwards = dimension.length - forwards;
  const int steps = std::min(forwards, backwards);
  const bool both = forwards == backwards && dimension.length > 2;
  if (both && !selector.hashed) {
    walk(dimension, router, steps, 1, kWholeFlow / 2, path);
    walk(dimension, router, steps, -1, kWholeFlow / 2, path);
  } else {
    const bool forward = both ? selector.pick(2, dimension.port) == 0 : forwards <= backwards;
    walk(dimension, router, steps, forward ? 1 : -1, kWholeFlow, path);
  }
  path.switches += steps;
  path.latency += hop_latency_ * steps;
  router += (to - from) * dimension.stride;
}

FabricPath TorusFabric::path(int from, int to, const PathSelector& selector) const {
  FabricPath path;
  path.switches = 1;
  int router = from;
  for (const Dimension& dimension : dimensions_) travel(dimension, router, to, selector, path);
  return path;
}

}  // namespace tracecast
