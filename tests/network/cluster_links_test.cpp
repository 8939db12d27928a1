#include "sim/network/cluster_links.hpp"

#include <set>

#include <catch2/catch.hpp>

#include "tests/network/small_clusters.hpp"

namespace tracecast {
namespace {

using namespace literals;

std::vector<std::string> route(const ClusterLinks& links, int from, int to, int rail = -1) {
  LinkPath way;
  links.append_route(from, to, rail, way);
  std::vector<std::string> names;
  for (const std::int32_t link : way) names.push_back(links.name(link));
  return names;
}

TEST_CASE("Ways of flows over a rail-optimised fabric", "[network]") {
  using Names = std::vector<std::string>;
  const ClusterLinks links(small_cluster(512), "Hopper");
  CHECK(route(links, 1, 6) == Names{"node 0 gpu 1 out", "node 0 gpu 6 in"});
  // Same rail, same leaf.
  CHECK(route(links, 1, 9) == Names{"node 0 port 1 out", "node 1 port 1 in"});
  // Same rail, next leaf unit: over the rail's own leaf switches.
  CHECK(route(links, 1, 33) ==
        Names{"node 0 port 1 out", "leaf 0 rail 1 up", "leaf 1 rail 1 down", "node 4 port 1 in"});
  // Another rail in the same leaf unit: rails meet above the leaves.
  CHECK(route(links, 1, 10) ==
        Names{"node 0 port 1 out", "leaf 0 rail 1 up", "leaf 0 rail 2 down", "node 1 port 2 in"});
  // The same by the rail of the receiver: over NVLink first.
  CHECK(route(links, 1, 10, 2) ==
        Names{"node 0 gpu 1 out", "node 0 gpu 2 in", "node 0 port 2 out", "node 1 port 2 in"});
  // Two tiers up.
  CHECK(route(links, 0, 256) == Names{"node 0 port 0 out", "leaf 0 rail 0 up", "leaf 8 rail 0 down", "spine 0 up",
                                      "spine 2 down", "node 32 port 0 in"});
}

TEST_CASE("On a plain fat tree all ports of a node share the leaf", "[network]") {
  const ClusterLinks links(small_cluster(64, 1, "fat-tree"), "Hopper");
  CHECK(route(links, 1, 10) == std::vector<std::string>{"node 0 port 1 out", "node 1 port 2 in"});
  CHECK(route(links, 1, 34) ==
        std::vector<std::string>{"node 0 port 1 out", "leaf 0 up", "leaf 1 down", "node 4 port 2 in"});
}

TEST_CASE("Capacities: NCCL's share of NVLink, the wire, oversubscribed bundles", "[oracle][network]") {
  const ClusterLinks links(small_cluster(64, 2), "Hopper");
  LinkPath way;
  links.append_route(0, 1, -1, way);
  CHECK(links.capacity(way[0]).bytes_per_second == 370'800'000'000);  // 450 x 20.6 / 25
  way.clear();
  links.append_route(0, 32, -1, way);
  CHECK(links.capacity(way[0]).bytes_per_second == 48'750'000'000);  // 50 x 0.975
  CHECK(links.capacity(way[1]).bytes_per_second == 97'500'000'000);  // 4 nodes below a rail's leaf, 2 to 1
}

TEST_CASE("Ports: GPUs that share a NIC, NICs that share a GPU", "[network]") {
  Cluster cluster = small_cluster(16);
  cluster.node.nics = 4;
  const ClusterLinks four(cluster, "Hopper");
  CHECK(four.ports() == 4);
  CHECK(four.port_of(1) == 0);
  CHECK(four.port_of(7) == 3);
  cluster.node.nics = 16;
  const ClusterLinks sixteen(cluster, "Hopper");
  CHECK(sixteen.ports() == 8);
  LinkPath way;
  sixteen.append_route(0, 8, -1, way);
  CHECK(sixteen.capacity(way[0]).bytes_per_second == 97'500'000'000);
}

TEST_CASE("Every link has a name of its own and a capacity", "[property][network]") {
  for (const char* fabric : {"rail-optimized", "fat-tree"}) {
    const ClusterLinks links(small_cluster(136, 1, fabric), "Hopper");
    std::set<std::string> names;
    for (std::int32_t link = 0; link < links.count(); ++link) {
      names.insert(links.name(link));
      CHECK(links.capacity(link).bytes_per_second > 0);
    }
    CHECK(static_cast<std::int32_t>(names.size()) == links.count());
  }
}

}  // namespace
}  // namespace tracecast
