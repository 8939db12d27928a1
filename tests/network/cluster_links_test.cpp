#include "sim/network/cluster_links.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/network/small_clusters.hpp"

namespace tracecast {
namespace {

using namespace literals;

std::vector<std::string> route(const ClusterLinks& links, int from, int to, int rail = -1) {
  LinkPath path;
  links.append_route(from, to, rail, path);
  std::vector<std::string> names;
  for (const std::int32_t link : path) names.push_back(links.name(link));
  return names;
}

TEST_CASE("Paths of flows over a rail-optimised fabric", "[network]") {
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

TEST_CASE("Moving ranks by whole domains moves the links of their paths", "[property][network]") {
  std::vector<Cluster> clusters{small_cluster(512, 2), small_cluster(512, 2, FabricKind::fat_tree)};
  clusters.push_back(clusters.back());
  clusters.back().tiers[1].nodes = 6;  // leaves of 4 nodes belong to the pod of their first node
  for (const Cluster& cluster : clusters) {
    const ClusterLinks links(cluster, "Hopper");
    std::set<bool> answers;
    for (int from = 0; from < 512; from += 5)
      for (int to = from + 1; to < 512; to += 7)
        for (const int domains : {1, 3, 4, 12, 16, 32}) {
          const int by = domains * links.gpus();
          if (to + by >= 512) continue;
          answers.insert(links.is_translation(from, to, domains));
          if (!links.is_translation(from, to, domains)) continue;
          LinkPath path;
          links.append_route(from, to, -1, path);
          for (std::int32_t& link : path) link = links.orbits(8)->translated(link, domains);
          LinkPath further;
          links.append_route(from + by, to + by, -1, further);
          REQUIRE(path == further);
        }
    CHECK(answers == std::set<bool>{false, true});
  }
}

TEST_CASE("Rotating nodes, and blocks of nodes, rotates the links of paths within their orbits",
          "[property][network]") {
  for (const FabricKind fabric : {FabricKind::rail_optimized, FabricKind::fat_tree})
    for (const int nics : {2, 4, 8}) {
      Cluster cluster = small_cluster(512, 2, fabric);
      cluster.node.nics = nics;
      const ClusterLinks links(cluster, "Hopper");
      CHECK(links.orbits(1).has_value() == (nics == 8));  // two GPUs of one NIC are rotated together
      CHECK_FALSE(links.orbits(3));
      CHECK(links.orbits(8, 2).has_value());
      CHECK_FALSE(links.orbits(8, 3));  // the cluster has no whole blocks
      for (const auto& [step, block] : {std::pair{1, 1}, {2, 1}, {4, 1}, {8, 1}, {1, 2}, {4, 2}, {8, 2}}) {
        const std::optional<LinkOrbits> orbits = links.orbits(step, block);
        if (!orbits) continue;
        CHECK(orbits->order() == 8 / step * block);
        for (int from = 0; from < 512; from += 5)
          for (int to = from + 1; to < 512; to += 7)
            for (int times = 0; times < orbits->order(); ++times) {
              LinkPath path;
              links.append_route(from, to, -1, path);
              std::vector<std::int32_t> orbit_of_path;
              for (std::int32_t& link : path) {
                orbit_of_path.push_back(orbits->orbit_of(link));
                link = orbits->rotated(link, times);
              }
              LinkPath rotated;
              links.append_route(orbits->rotated_rank(from, times), orbits->rotated_rank(to, times), -1, rotated);
              REQUIRE(path == rotated);
              for (std::size_t i = 0; i < path.size(); ++i) {
                REQUIRE(orbits->orbit_of(path[i]) == orbit_of_path[i]);
                REQUIRE(links.capacity(path[i]) == links.capacity(orbits->first_link(orbit_of_path[i])));
              }
            }
      }
    }
}

TEST_CASE("Orbits divide the links, and are numbered by their first", "[network]") {
  for (const FabricKind fabric : {FabricKind::rail_optimized, FabricKind::fat_tree}) {
    const ClusterLinks links(small_cluster(512, 2, fabric), "Hopper");
    for (const auto& [step, block] : {std::pair{1, 1}, {2, 1}, {8, 1}, {1, 2}, {8, 2}}) {
      const LinkOrbits orbits = links.orbits(step, block).value();
      std::vector<int> size(static_cast<std::size_t>(orbits.count()));
      std::vector<std::int32_t> first(size.size(), -1);
      for (std::int32_t link = 0; link < links.count(); ++link) {
        const auto orbit = static_cast<std::size_t>(orbits.orbit_of(link));
        REQUIRE(orbit < size.size());
        if (size[orbit]++ == 0) first[orbit] = link;
      }
      CHECK(std::is_sorted(first.begin(), first.end()));
      for (std::int32_t orbit = 0; orbit < orbits.count(); ++orbit) {
        REQUIRE(size[static_cast<std::size_t>(orbit)] == orbits.size(orbit));
        REQUIRE(first[static_cast<std::size_t>(orbit)] == orbits.first_link(orbit));
      }
    }
  }
}

TEST_CASE("On a plain fat tree all ports of a node share the leaf", "[network]") {
  const ClusterLinks links(small_cluster(64, 1, FabricKind::fat_tree), "Hopper");
  CHECK(route(links, 1, 10) == std::vector<std::string>{"node 0 port 1 out", "node 1 port 2 in"});
  CHECK(route(links, 1, 34) ==
        std::vector<std::string>{"node 0 port 1 out", "leaf 0 up", "leaf 1 down", "node 4 port 2 in"});
}

TEST_CASE("Capacities: NCCL's share of NVLink, the wire, oversubscribed bundles", "[oracle][network]") {
  const ClusterLinks links(small_cluster(64, 2), "Hopper");
  LinkPath path;
  links.append_route(0, 1, -1, path);
  CHECK(links.capacity(path[0]).bytes_per_second == 370'800'000'000);  // 450 x 20.6 / 25
  path.clear();
  links.append_route(0, 32, -1, path);
  CHECK(links.capacity(path[0]).bytes_per_second == 48'750'000'000);  // 50 x 0.975
  CHECK(links.capacity(path[1]).bytes_per_second == 97'500'000'000);  // 4 nodes below a rail's leaf, 2 to 1
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
  LinkPath path;
  sixteen.append_route(0, 8, -1, path);
  CHECK(sixteen.capacity(path[0]).bytes_per_second == 97'500'000'000);
}

TEST_CASE("Faults: slow and lost NICs, lost rails and uplinks, missing GPUs", "[network]") {
  using Names = std::vector<std::string>;
  Cluster cluster = small_cluster(512);
  cluster.faults.slow_nics = {{1, 2, 0.5}, {2, 7, 0}};
  cluster.faults.lost_uplinks["leaf"] = 0.25;
  const ClusterLinks links(cluster, "Hopper");
  const auto capacities = [&](const ClusterLinks& of, int from, int to) {
    LinkPath path;
    of.append_route(from, to, -1, path);
    std::vector<std::int64_t> result;
    for (const std::int32_t link : path) result.push_back(of.capacity(link).bytes_per_second);
    return result;
  };
  CHECK(capacities(links, 2, 10) == std::vector<std::int64_t>{48'750'000'000, 24'375'000'000});
  // The last NIC of node 2 is gone: the first one of its host does its work, on a leaf of another rail.
  CHECK(route(links, 7, 23) ==
        Names{"node 0 port 7 out", "leaf 0 rail 7 up", "leaf 0 rail 0 down", "node 2 port 0 in"});
  CHECK(capacities(links, 7, 23)[1] == 146'250'000'000);  // 4 nodes below a rail's leaf, three quarters of the cables

  cluster.faults = {};
  cluster.faults.lost_rails = {3};
  const ClusterLinks without_rail(cluster, "Hopper");
  CHECK(route(without_rail, 3, 11) == Names{"node 0 port 4 out", "node 1 port 4 in"});

  cluster.faults = {};
  cluster.faults.missing_gpus[0] = 2;
  const ClusterLinks with_hole(cluster, "Hopper");
  CHECK(route(with_hole, 0, 6) == Names{"node 0 port 0 out", "node 1 port 0 in"});
}

TEST_CASE("Every link has its own name and a capacity", "[property][network]") {
  for (const FabricKind fabric : {FabricKind::rail_optimized, FabricKind::fat_tree}) {
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
