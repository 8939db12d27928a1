/// Flows on single hashed paths: their cables, the cost of collisions, and that the hash is even.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/network/flow_cost.hpp"
#include "sim/network/fluid.hpp"
#include "sim/network/routing.hpp"
#include "tests/network/fabrics.hpp"
#include "tests/network/small_clusters.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/transfer_ends.hpp"

namespace tracecast {
namespace {

using namespace literals;

Cluster hashed(Cluster cluster, std::int64_t seed = 1) {
  cluster.routing = RoutingPolicy::ecmp;
  cluster.routing_seed = seed;
  return cluster;
}

/// Cables that a part of a flow takes.
LinkPath cables_of(const ClusterLinks& links, int from, int to, int part = 0) {
  LinkPath path;
  links.append_route(from, to, -1, path, part);
  std::erase_if(path, [&](std::int32_t link) { return link < links.first_cable(); });
  return path;
}

std::vector<Cluster> machines() {
  std::vector<Cluster> clusters{small_cluster(512),
                                small_cluster(512, 4),
                                small_cluster(512, 2, FabricKind::fat_tree),
                                three_tiers(FabricKind::rail_optimized, 40),
                                three_tiers(FabricKind::fat_tree, 40),
                                frontier_like(300),
                                torus(60, {5, 4, 3})};
  for (const int nics : {4, 16}) {  // one for two GPUs, two for each
    clusters.push_back(small_cluster(512, 2, FabricKind::fat_tree));
    clusters.back().node.nics = nics;
  }
  Cluster blocks = dgx_h100(8 * 300);
  blocks.shape.switch_ports = 64;
  clusters.push_back(blocks);
  return clusters;
}

TEST_CASE("Hashed paths: the links of both models are the switches of the topology, pair by pair",
          "[differential][network]") {
  NetworkFaults slow;
  slow.slow_nics = {{0, 1, 0.5}, {3, 2, 0}};
  for (const Cluster& plain : machines())
    for (const NetworkFaults& faults : {NetworkFaults{}, slow}) {
      if (plain.node.nics < 3 || (plain.fabric == FabricKind::torus && !faults.slow_nics.empty())) continue;
      Cluster cluster = hashed(plain, 5);
      cluster.faults = faults;
      const ClusterLinks links(cluster, "Hopper");
      const Topology topology(cluster, FabricDetail::switches);
      const Routing routing(topology, {RoutingPolicy::ecmp, 5, false});
      const int step = cluster.world_size / 40 + 1;
      for (int from = 0; from < cluster.world_size; from += step)
        for (int to = 1; to < cluster.world_size; to += step + 2) {
          if (cluster.node_of(from) == cluster.node_of(to)) continue;
          for (int part = 0; part < links.parts(from, to, -1); ++part) {
            INFO(cluster.name << " " << to_string(cluster.fabric) << ", " << cluster.node.nics << " NICs, " << from
                              << " to " << to);
            std::vector<std::string> expected;
            for (const LinkLoad& load : routing.route(from, to, static_cast<std::uint64_t>(part)).loads) {
              const TopologyLink link = topology.link(load.link);
              if (link.kind == LinkKind::fabric)
                expected.push_back(topology.name(link.from) + " to " + topology.name(link.to));
            }
            std::vector<std::string> found;
            for (const std::int32_t cable : cables_of(links, from, to, part)) {
              const std::string name = links.name(cable);
              found.push_back(name.substr(0, name.find(" cable")));
            }
            REQUIRE(found == expected);
          }
        }
    }
}

TEST_CASE("Hashed paths: single cables of a NIC's rate, all of them once", "[property][network]") {
  for (const Cluster& plain : machines()) {
    const ClusterLinks links(hashed(plain), "Hopper");
    const Topology topology(plain, FabricDetail::switches);
    INFO(plain.name << " " << to_string(plain.fabric));
    std::set<std::string> names;
    double sum = 0;
    for (std::int32_t cable = links.first_cable(); cable < links.count(); ++cable) {
      names.insert(links.name(cable));
      const auto rate = static_cast<double>(links.capacity(cable).bytes_per_second);
      CHECK(rate < 1.25 * static_cast<double>(plain.node.nic_rate.bytes_per_second));
      sum += rate / kWireEfficiency;
    }
    double whole = 0;
    for (int link = topology.first_fabric_link(); link < topology.link_count(); ++link)
      whole += static_cast<double>(topology.link(link).capacity.bytes_per_second);
    CHECK(sum == Approx(whole).epsilon(1e-6));
    CHECK(static_cast<std::int32_t>(names.size()) == links.count() - links.first_cable());
  }
}

TEST_CASE("Hashed paths: a lost share is missing from every cable of the tier", "[network]") {
  Cluster cluster = hashed(small_cluster(512));
  const ClusterLinks healthy(cluster, "Hopper");
  cluster.faults.lost_uplinks["leaf"] = 0.25;
  const ClusterLinks damaged(cluster, "Hopper");
  const LinkPath path = cables_of(healthy, 0, 256);
  REQUIRE(path.size() == 4);  // leaf, spine, core and down again
  CHECK(path == cables_of(damaged, 0, 256));
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool above_leaf = i == 0 || i == 3;
    CHECK(static_cast<double>(damaged.capacity(path[i]).bytes_per_second) ==
          Approx((above_leaf ? 0.75 : 1.0) * static_cast<double>(healthy.capacity(path[i]).bytes_per_second)));
  }
}

// ---- The hash --------------------------------------------------------------------------------------------------------

double chi_square(const std::vector<int>& counts, double expected) {
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST_CASE("The hash of paths is even, for adjacent nodes, for all pairs, and from hop to hop", "[property][network]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    INFO("seed " << seed);
    std::vector<int> neighbours(8);
    std::vector<int> pairs(16);
    std::vector<int> hops(64);
    for (int node = 0; node < 512; ++node)
      for (int nic = 0; nic < 8; ++nic)
        ++neighbours[static_cast<std::size_t>(hashed_selector(seed, {node, nic}, {node + 1, nic}, 0).pick(8, 0))];
    for (int from = 0; from < 64; ++from)
      for (int to = 0; to < 64; ++to) {
        const PathSelector choice = hashed_selector(seed, {from, 0}, {to, 0}, 0);
        ++pairs[static_cast<std::size_t>(choice.pick(16, 0))];
        ++hops[static_cast<std::size_t>(8 * choice.pick(8, 0) + choice.pick(8, 1))];
      }
    // Of chi-square with 7, 15 and 63 degrees of freedom, what one case in 10^5 exceeds.
    CHECK(chi_square(neighbours, 512.0) < 36);
    CHECK(chi_square(pairs, 256.0) < 50);
    CHECK(chi_square(hops, 64.0) < 121);
  }
}

TEST_CASE("Seeds, directions and parts of a flow have hashes of their own", "[property][network]") {
  std::map<std::string, int> alike;
  constexpr int kPairs = 400;
  for (int i = 0; i < kPairs; ++i) {
    const NicId a{i, 3};
    const NicId b{i + 7, 3};
    const int path = hashed_selector(1, a, b, 0).pick(8, 0);
    alike["same"] += path == hashed_selector(1, a, b, 0).pick(8, 0);
    alike["seed"] += path == hashed_selector(2, a, b, 0).pick(8, 0);
    alike["back"] += path == hashed_selector(1, b, a, 0).pick(8, 0);
    alike["part"] += path == hashed_selector(1, a, b, 1).pick(8, 0);
  }
  CHECK(alike["same"] == kPairs);
  for (const char* other : {"seed", "back", "part"}) {
    INFO(other);
    CHECK((alike[other] > 25 && alike[other] < 80));  // 50 by chance, sigma 6.6
  }
}

// ---- What collisions cost --------------------------------------------------------------------------------------------

/// Ends of messages of 48.75 MB between the pairs, begun together, each at the wire's 48.75 GB/s where nothing is in its path.
std::vector<Duration> ends_of(const ClusterLinks& links, const std::vector<std::pair<int, int>>& pairs) {
  FluidNetwork network(links, {.alone_as_costed = false});
  CollectiveCost cost;
  cost.duration = 1_ms;
  for (const auto& [from, to] : pairs)
    network.add_kind(cost, {{{{{0, 1, -1, {48'750'000}}}, 1}}}, make_flow_group(links, std::vector{from, to}));
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(pairs.size()); ++i) network.start(i, i, {});
  return test::ends_of_transfers(network, pairs.size());
}

TEST_CASE("Two flows on one cable get half of it each, to the picosecond", "[oracle][network]") {
  // Two nodes of one leaf send to two of another one. Each NIC and each cable carries 50 GB/s x 0.975, so a flow takes
  // 48.75 MB / 48.75 GB/s = 1 ms by itself, and 2 ms where both have been given one cable. Evenly split they never meet.
  std::map<bool, int> seen;
  for (std::int64_t seed = 1; seed <= 100; ++seed) {
    const ClusterLinks links(hashed(small_cluster(64, 1, FabricKind::fat_tree), seed), "Hopper");
    const LinkPath one = cables_of(links, 0, 40);
    LinkPath other = cables_of(links, 8, 48);
    REQUIRE(one.size() == 2);
    const bool meet = std::find_first_of(one.begin(), one.end(), other.begin(), other.end()) != one.end();
    ++seen[meet];
    INFO("seed " << seed << (meet ? ": they meet" : ": they do not"));
    CHECK(ends_of(links, {{0, 40}, {8, 48}}) == std::vector<Duration>(2, meet ? 2_ms : 1_ms));
  }
  // 32 cables up and 32 down: 1 - (31/32)^2 = 6 % of the seeds.
  CHECK((seen[true] > 0 && seen[true] < 20));
  const ClusterLinks even(small_cluster(64, 1, FabricKind::fat_tree), "Hopper");
  CHECK(ends_of(even, {{0, 40}, {8, 48}}) == std::vector<Duration>(2, 1_ms));
}

TEST_CASE("A collective whose own flows collide takes longer, by its fullest cable in every round",
          "[oracle][network]") {
  // Two nodes of 8 NICs, two leaves of one node each, 8 cables between them: a ring on each rail, all of them at once.
  for (std::int64_t seed = 1; seed <= 10; ++seed) {
    Cluster cluster = hashed(small_cluster(16, 1, FabricKind::fat_tree), seed);
    cluster.tiers = {{"leaf", 1, 1, {}}, {"spine", 0, 1, {}}};
    const ClusterLinks links(cluster, "Hopper");
    const FlowGroup group = make_flow_group(links, range(16));
    const CollectiveCall call{Collective::all_reduce, 48'750'000_B * 8 * 16, Algorithm::ring};
    CollectiveCost cost;
    cost.algorithm = Algorithm::ring;
    cost.duration = 30_ms;  // 2 (16 - 1) rounds of 48.75 MB at 48.75 GB/s
    std::map<std::int32_t, int> users;
    for (int rail = 0; rail < 8; ++rail)
      for (const auto& [from, to] : {std::pair{7, 8}, std::pair{15, 0}}) {
        LinkPath path;
        links.append_route(from, to, rail, path);
        for (const std::int32_t link : path)
          if (link >= links.first_cable()) ++users[link];
      }
    int fullest = 0;
    for (const auto& [cable, count] : users) fullest = std::max(fullest, count);
    const TransferShape shape =
        TransferShapes(links).shape(cost, collective_flows(call, Algorithm::ring, group), group);
    INFO("seed " << seed << ", " << fullest << " on the fullest cable");
    CHECK(shape.moving == 30_ms * fullest);
    CHECK(shape.limit.bytes_per_second == 48'750'000'000 / fullest);
    CHECK(shape.collides == (fullest > 1));
    for (const LinkWeight& load : shape.loads)
      if (users.count(load.link) != 0) CHECK(load.weight == users[load.link] * kWeightOne);
  }
}

TEST_CASE("Minimal paths of a dragonfly: four NICs of adjacent nodes share one cable", "[oracle][network]") {
  Cluster cluster = shipped_topology("frontier");
  cluster.world_size = 64;
  cluster.tuning = {};
  // NICs fill routers of 16: nodes 0 to 3 are on the first router, node 4 on the second; between routers is one cable.
  const auto messages = [](const Cluster& machine) {
    const ClusterLinks links(machine, "CDNA 2");
    std::vector<std::pair<int, int>> pairs;
    for (int gcd = 0; gcd < 8; gcd += 2) pairs.emplace_back(24 + gcd, 32 + gcd);
    FluidNetwork network(links, {.alone_as_costed = false});
    CollectiveCost cost;
    cost.duration = 1_ms;  // 24.375 MB at 0.975 x 25 GB/s
    for (const auto& [from, to] : pairs)
      network.add_kind(cost, {{{{{0, 1, -1, {24'375'000}}}, 1}}}, make_flow_group(links, std::vector{from, to}));
    for (std::int32_t i = 0; i < 4; ++i) network.start(i, i, {});
    Duration now;
    std::vector<std::int32_t> ended;
    while (network.advance(now, ended)) {
    }
    return now;
  };
  CHECK(messages(cluster) == 1_ms);  // tiers: switches find an uncongested path
  const ClusterLinks links(hashed(cluster), "CDNA 2");
  const LinkPath cable = cables_of(links, 24, 32);
  REQUIRE(cable.size() == 1);
  CHECK(links.name(cable[0]) == "group0/router0 to group0/router1");
  CHECK(links.capacity(cable[0]).bytes_per_second == 24'375'000'000);
  for (int gcd = 2; gcd < 8; gcd += 2) CHECK(cables_of(links, 24 + gcd, 32 + gcd) == cable);
  CHECK(messages(hashed(cluster)) == 4_ms);
}

TEST_CASE("All-reduces on a torus whose rings cross each other share every cable", "[oracle][network]") {
  // Eight routers in a circle; one ring over the even ones, one over the odd ones. Both go on by two cables at a time,
  // forwards, so that every cable forwards is on both rings.
  Cluster cluster = hashed(torus(8, {8}));
  cluster.node.nics = 1;
  const CollectiveCall call{Collective::all_reduce, 64_MiB, Algorithm::ring};
  const auto time = [&](const Cluster& machine, const std::vector<std::vector<int>>& groups) {
    return *flow_cost(NetworkKind::fluid, machine, "Hopper", {call, groups});
  };
  const CollectiveCost alone = time(cluster, {range(4, 0, 2)});
  const CollectiveCost both = time(cluster, {range(4, 0, 2), range(4, 1, 2)});
  // 2 (4 - 1) rounds in which two flows of 16 MiB cross every cable of 0.975 x 6.8 GB/s.
  CHECK(seconds(both.duration - both.latency) == Approx(6 * 2 * 16.0 * (1 << 20) / 6.63e9).epsilon(1e-6));
  CHECK(seconds(both.duration - both.latency) > 1.7 * seconds(alone.duration - alone.latency));
  Cluster even = cluster;
  even.routing = RoutingPolicy::even;
  CHECK(time(even, {range(4, 0, 2), range(4, 1, 2)}).duration == alone.duration);
  // A ring over all eight has a cable of its own for each of its steps.
  CHECK(time(cluster, {range(8)}).duration == time(even, {range(8)}).duration);
}

TEST_CASE("Ties on a torus are decided by the hash", "[network]") {
  std::set<LinkPath> paths;
  for (std::int64_t seed = 1; seed <= 10; ++seed)
    paths.insert(cables_of(ClusterLinks(hashed(torus(4, {4}), seed), "Hopper"), 0, 2));
  CHECK(paths.size() == 2);
}

}  // namespace
}  // namespace tracecast
