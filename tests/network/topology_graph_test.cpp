#include "sim/network/topology_graph.hpp"

#include <catch2/catch.hpp>

#include "sim/network/routing.hpp"
#include "tests/network/fabrics.hpp"

namespace tracecast {
namespace {

using namespace literals;

/// Links from the first to the last vertex of a route, all of whose ways are as long.
int links_of_way(const Topology& topology, const FlowRoute& route) {
  std::int64_t sum = 0;
  for (const LinkLoad& load : route.loads) sum += load.weight;
  CHECK(sum % kWholeFlow == 0);
  (void)topology;
  return static_cast<int>(sum / kWholeFlow);
}

TEST_CASE("Routes are as short as a search in the graph finds", "[differential][network]") {
  Cluster ports = three_tiers("fat-tree", 40);
  ports.shape.switch_ports = 64;
  for (const Cluster& cluster : {three_tiers("rail-optimized", 40), ports, torus(60, {5, 4, 3}), frontier_like(100)})
    for (const auto detail : {FabricDetail::planes, FabricDetail::switches}) {
      const Topology topology(cluster, detail);
      const TopologyGraph graph = make_graph(topology);
      // Over the fabric alone: rails are crossed above the leaves, not over NVLink.
      const Routing routing(topology, {RoutingPolicy::even, 1, false});
      const std::vector<int> distances = link_distances(graph, topology.gpu(0));
      for (int rank = 1; rank < cluster.world_size; rank += 7) {
        if (rank % cluster.node.gpus != 0) continue;
        INFO(cluster.name << " to rank " << rank);
        CHECK(links_of_way(topology, routing.route(0, rank)) ==
              distances[static_cast<std::size_t>(topology.gpu(rank))]);
      }
    }
}

TEST_CASE("Bisection bandwidth", "[oracle][network]") {
  SECTION("inside a node: half of the GPUs into the switch") {
    Cluster cluster = dgx_h100(8);
    cluster.node.nics = 0;
    // 4 GPUs over NVSwitch and PCIe: 4 (450 + 53) GB/s, less than nothing is lost on the way
    CHECK(bisection_bandwidth(Topology(cluster)) == Bandwidth{4 * 503'000'000'000});
  }
  SECTION("full fat tree: the NICs of half of the nodes") {
    CHECK(bisection_bandwidth(Topology(dgx_h100(8 * 64))) == Bandwidth{32 * 8 * 50'000'000'000});
    CHECK(bisection_bandwidth(Topology(dgx_h100(8 * 64), FabricDetail::switches)) ==
          Bandwidth{32 * 8 * 50'000'000'000});
  }
  SECTION("oversubscribed 2:1 at the leaves and 4:1 above: an eighth of them") {
    CHECK(bisection_bandwidth(Topology(three_tiers("fat-tree", 64))) == Bandwidth{32 * 8 * 50'000'000'000 / 8});
  }
  SECTION("a ring of 6 in a 6 x 3 torus is cut twice") {
    CHECK(bisection_bandwidth(Topology(torus(18, {6, 3}))) == Bandwidth{2 * 3 * 6'800'000'000});
  }
  SECTION("two dragonfly groups: their four cables") {
    CHECK(bisection_bandwidth(Topology(frontier_like(256))) == Bandwidth{4 * 25'000'000'000});
  }
  SECTION("a lost spine takes its share") {
    Cluster cluster = dgx_h100(8 * 64);
    cluster.shape.switch_ports = 64;
    Topology topology(cluster);
    REQUIRE(topology.remove_switch(1, 0, 0));
    CHECK(bisection_bandwidth(topology) == Bandwidth{32 * 8 * 50'000'000'000 / 8 * 7});
  }
}

}  // namespace
}  // namespace tracecast
