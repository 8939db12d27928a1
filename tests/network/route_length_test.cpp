// Routes against a breadth-first search over every link.
#include <deque>

#include <catch2/catch.hpp>

#include "sim/network/routing.hpp"
#include "tests/network/fabrics.hpp"

namespace tracecast {
namespace {

/// Links on the way of a flow, all of whose ways are as long.
int links_of_way(const FlowRoute& route) {
  std::int64_t sum = 0;
  for (const LinkLoad& load : route.loads) sum += load.weight;
  CHECK(sum % kWholeFlow == 0);
  return static_cast<int>(sum / kWholeFlow);
}

/// Links from a vertex to every other on the way with the fewest; -1: there is none.
std::vector<int> link_distances(const Topology& topology, int from) {
  const auto vertices = static_cast<std::size_t>(topology.vertex_count());
  std::vector<std::vector<int>> neighbours(vertices);
  for (int id = 0; id < topology.link_count(); ++id) {
    const TopologyLink link = topology.link(id);
    if (link.capacity.bytes_per_second > 0) neighbours[static_cast<std::size_t>(link.from)].push_back(link.to);
  }
  std::vector<int> distances(vertices, -1);
  distances[static_cast<std::size_t>(from)] = 0;
  for (std::deque<int> next{from}; !next.empty(); next.pop_front()) {
    const auto here = static_cast<std::size_t>(next.front());
    for (const int there : neighbours[here]) {
      if (distances[static_cast<std::size_t>(there)] >= 0) continue;
      distances[static_cast<std::size_t>(there)] = distances[here] + 1;
      next.push_back(there);
    }
  }
  return distances;
}

TEST_CASE("Routes are as short as a search in the graph finds", "[differential][network]") {
  Cluster ports = three_tiers(FabricKind::fat_tree, 40);
  ports.shape.switch_ports = 64;
  for (const Cluster& cluster :
       {three_tiers(FabricKind::rail_optimized, 40), ports, torus(60, {5, 4, 3}), frontier_like(100)})
    for (const auto detail : {FabricDetail::planes, FabricDetail::switches}) {
      const Topology topology(cluster, detail);
      // Over the fabric alone: rails are crossed above the leaves, not over NVLink.
      const Routing routing(topology, {RoutingPolicy::even, 1, false});
      const std::vector<int> distances = link_distances(topology, topology.gpu(0));
      for (int rank = 1; rank < cluster.world_size; rank += 7) {
        if (rank % cluster.node.gpus != 0) continue;
        INFO(cluster.name << " to rank " << rank);
        CHECK(links_of_way(routing.route(0, rank)) == distances[static_cast<std::size_t>(topology.gpu(rank))]);
      }
    }
}

}  // namespace
}  // namespace tracecast
