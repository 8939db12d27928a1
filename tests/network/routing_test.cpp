#include "sim/network/routing.hpp"

#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "tests/network/fabrics.hpp"

namespace tracecast {
namespace {

using namespace literals;

/// Names of the vertices that the loads lead to, in order.
std::vector<std::string> stops(const Topology& topology, const FlowRoute& route) {
  std::vector<std::string> names;
  for (const LinkLoad& load : route.loads) names.push_back(topology.name(topology.link(load.link).to));
  return names;
}

Cluster with_latencies(Cluster cluster) {
  cluster.node.link_latency = 1_us;
  cluster.node.nic_latency = 1500_ns;
  return cluster;
}

using Stops = std::vector<std::string>;

TEST_CASE("Paths through a rail-optimised cluster", "[network]") {
  const Topology topology(with_latencies(dgx_h100(8 * 512)));
  const Routing routing(topology);
  SECTION("inside a node over the NVSwitch") {
    const FlowRoute route = routing.route(8, 13);
    CHECK(stops(topology, route) == Stops{"node1/nvswitch", "node1/gpu5"});
    CHECK(route.latency == 1_us);
    CHECK(route.switches == 0);
    CHECK(bottleneck(topology, route) == 450_GBps);
  }
  SECTION("on a rail within a unit through its leaf") {
    const FlowRoute route = routing.route(3, 8 * 31 + 3);
    CHECK(stops(topology, route) ==
          Stops{"node0/pcie3", "node0/nic3", "leaf0.3", "node31/nic3", "node31/pcie3", "node31/gpu3"});
    CHECK(route.latency == 1500_ns);
    CHECK(route.switches == 1);
    CHECK(bottleneck(topology, route) == 50_GBps);
  }
  SECTION("to another rail first over NVLink") {
    const FlowRoute route = routing.route(3, 8 * 31 + 6);
    CHECK(stops(topology, route) == Stops{"node0/nvswitch", "node0/gpu6", "node0/pcie6", "node0/nic6", "leaf0.6",
                                          "node31/nic6", "node31/pcie6", "node31/gpu6"});
    CHECK(route.latency == 2500_ns);
  }
  SECTION("to another rail without that: over the spines") {
    const Routing plain(topology, {RoutingPolicy::even, 1, false});
    const FlowRoute route = plain.route(3, 8 * 31 + 6);
    CHECK(route.switches == 3);
    CHECK(route.latency == 2_us);
    CHECK(stops(topology, route)[3] == "spine0.0");
  }
  SECTION("to another unit over the spines, to another pod over the core") {
    CHECK(routing.route(3, 8 * 32 + 3).switches == 3);
    CHECK(routing.route(3, 8 * 32 + 3).latency == 2_us);
    CHECK(routing.route(3, 8 * 256 + 3).switches == 5);
    CHECK(routing.route(3, 8 * 256 + 3).latency == 2500_ns);
  }
}

TEST_CASE("GPUs that share a NIC, and NICs that share a GPU", "[network]") {
  SECTION("4 NICs for 8 GPUs") {
    Cluster cluster = dgx_a100(16);
    cluster.node.nics = 4;
    cluster.fabric = FabricKind::fat_tree;
    const Topology topology(cluster);
    CHECK(stops(topology, Routing(topology).route(5, 8))[1] == "node0/nic2");
    CHECK(stops(topology, Routing(topology).route(4, 8))[1] == "node0/nic2");
  }
  SECTION("32 NICs for 8 GPUs: a quarter of the flow each") {
    Cluster cluster = dgx_h100(16);
    cluster.node.nics = 32;
    cluster.node.nic_rate = 100_Gbps;
    cluster.fabric = FabricKind::fat_tree;
    const Topology topology(cluster);
    const FlowRoute route = Routing(topology).route(1, 9);
    int cables = 0;
    for (const LinkLoad& load : route.loads)
      if (topology.link(load.link).kind == LinkKind::nic) {
        CHECK(load.weight == kWholeFlow / 4);
        ++cables;
      }
    CHECK(cables == 8);
    CHECK(bottleneck(topology, route) == 50_GBps);
  }
}

/// At every vertex as much of the flow arrives as leaves; all of it leaves the first GPU and arrives at the second.
void check_conserved(const Topology& topology, const FlowRoute& route, int from, int to) {
  std::map<int, std::int64_t> balance;
  std::set<int> links;
  for (const LinkLoad& load : route.loads) {
    CHECK(load.weight > 0);
    CHECK(links.insert(load.link).second);
    CHECK(topology.link(load.link).capacity.bytes_per_second > 0);
    balance[topology.link(load.link).from] -= load.weight;
    balance[topology.link(load.link).to] += load.weight;
  }
  for (const auto& [vertex, sum] : balance) {
    INFO(topology.name(vertex));
    CHECK(sum == (vertex == topology.gpu(to) ? kWholeFlow : vertex == topology.gpu(from) ? -kWholeFlow : 0));
  }
}

std::vector<Cluster> every_fabric() {
  Cluster meta = three_tiers(FabricKind::fat_tree, 40);
  meta.shape.switch_ports = 64;
  Cluster rails = dgx_h100(8 * 512);
  rails.shape.switch_ports = 64;
  Cluster racks = dgx_h100(72 * 16);
  racks.node.gpus = 72;
  racks.node.gpus_per_host = racks.node.nics = 4;
  racks.tiers = {{"unit", 8, 1, 500_ns}, {"core", 0, 1, 0_ns}};
  Cluster aws = dgx_h100(64);
  aws.node.nics = 32;
  aws.fabric = FabricKind::fat_tree;
  aws.tiers = {{"fabric", 0, 1, 0_ns}};
  Cluster shared = dgx_a100(8 * 60);
  shared.node.nics = 4;
  return {three_tiers(FabricKind::rail_optimized, 40),
          meta,
          rails,
          racks,
          aws,
          shared,
          frontier_like(300),
          torus(288, {2, 23, 24, 2, 3, 2}),
          torus(60, {5, 4, 3})};
}

TEST_CASE("Flows are conserved along their paths", "[property][network]") {
  RandomStream random(1, 0, 0);
  for (const Cluster& cluster : every_fabric())
    for (const auto detail : {FabricDetail::bundles, FabricDetail::planes, FabricDetail::switches})
      for (const auto policy : {RoutingPolicy::even, RoutingPolicy::ecmp})
        for (const bool rail_aware : {true, false}) {
          const Topology topology(cluster, detail);
          const Routing routing(topology, {policy, 7, rail_aware});
          for (int i = 0; i < 60; ++i) {
            const int from = static_cast<int>(random.below(static_cast<std::uint64_t>(cluster.world_size)));
            const int to = static_cast<int>(random.below(static_cast<std::uint64_t>(cluster.world_size)));
            INFO(cluster.name << " " << from << " -> " << to << " ecmp " << (policy == RoutingPolicy::ecmp));
            const FlowRoute route = routing.route(from, to);
            CHECK(route.connected);
            check_conserved(topology, route, from, to);
          }
        }
}

TEST_CASE("A plane drawn as one switch carries what its switches carry together", "[metamorphic][network]") {
  RandomStream random(2, 0, 0);
  for (const Cluster& cluster : every_fabric()) {
    const Topology planes(cluster, FabricDetail::planes);
    const Topology switches(cluster, FabricDetail::switches);
    for (int i = 0; i < 40; ++i) {
      const int from = static_cast<int>(random.below(static_cast<std::uint64_t>(cluster.world_size)));
      const int to = static_cast<int>(random.below(static_cast<std::uint64_t>(cluster.world_size)));
      const FlowRoute folded = Routing(planes).route(from, to);
      const FlowRoute whole = Routing(switches).route(from, to);
      CHECK(folded.latency == whole.latency);
      CHECK(folded.switches == whole.switches);
      CHECK(bottleneck(planes, folded) == bottleneck(switches, whole));
    }
  }
}

TEST_CASE("Bundles of tiers carry what the switches of the fabric carry", "[metamorphic][network]") {
  NetworkFaults slow;
  slow.slow_nics = {{0, 1, 0.5}, {3, 2, 0.25}};
  NetworkFaults lost;
  lost.lost_rails = {2};
  lost.slow_nics = {{5, 0, 0}};
  NetworkFaults uplinks;
  uplinks.lost_uplinks = {{"leaf", 0.5}, {"spine", 0.97}};
  NetworkFaults hole;
  hole.missing_gpus[2] = 3;
  for (const FabricKind kind : {FabricKind::rail_optimized, FabricKind::fat_tree})
    for (const int nics : {4, 8, 16})  // one for two GPUs, one for each, two for each
      for (const NetworkFaults& faults : {NetworkFaults{}, slow, lost, uplinks, hole}) {
        Cluster cluster = three_tiers(kind, 64);
        cluster.node.nics = nics;
        cluster.faults = faults;
        if (!faults.missing_gpus.empty()) cluster.world_size -= 3;
        const Topology bundles(cluster, FabricDetail::bundles);
        const Topology planes(cluster);
        for (int from = 0; from < cluster.world_size; from += 7)
          for (int to = 3; to < cluster.world_size; to += 31) {
            INFO(to_string(kind) << ", " << nics << " NICs, " << from << " to " << to);
            const RoutingOptions options{.rail_aware = from % 2 == 0};
            const FlowRoute joined = Routing(bundles, options).route(from, to);
            const FlowRoute single = Routing(planes, options).route(from, to);
            CHECK(joined.latency == single.latency);
            CHECK(joined.switches == single.switches);
            CHECK(static_cast<double>(bottleneck(bundles, joined).bytes_per_second) ==
                  Approx(static_cast<double>(bottleneck(planes, single).bytes_per_second)).epsilon(1e-6));
          }
      }
}

TEST_CASE("Latencies are those of `place`", "[differential][network]") {
  for (const Cluster& cluster :
       {with_latencies(three_tiers(FabricKind::rail_optimized, 40)),
        with_latencies(three_tiers(FabricKind::fat_tree, 40)), with_latencies(dgx_h100(8 * 512))}) {
    const Topology topology(cluster);
    for (int node = 1; node < cluster.nodes(); ++node) {
      const std::vector<int> ranks{3, 8 * node + 3};
      const GroupPlacement placed = place(cluster, ranks, 1);
      const FlowRoute route = Routing(topology).route(ranks[0], ranks[1]);
      CHECK(route.latency == cluster.node.nic_latency + placed.extra_latency);
      int switches = 1;
      for (const FabricTier& tier : cluster.tiers) switches += tier.nodes > 0 && node >= tier.nodes ? 2 : 0;
      CHECK(route.switches == switches);
    }
  }
}

TEST_CASE("Hashed flows take one path each, and together use every spine", "[property][network]") {
  Cluster cluster = dgx_h100(8 * 64);
  cluster.shape.switch_ports = 64;
  const Topology topology(cluster, FabricDetail::switches);
  const Routing routing(topology, {RoutingPolicy::ecmp, 3, true});
  std::map<int, int> spines;
  for (std::uint64_t flow = 0; flow < 400; ++flow) {
    const FlowRoute route = routing.route(0, 8 * 40, flow);
    CHECK(route.loads.size() == 8);  // pcie, nic, leaf, spine, leaf, nic, pcie, gpu
    for (const LinkLoad& load : route.loads) CHECK(load.weight == kWholeFlow);
    ++spines[topology.link(route.loads[3].link).to];
    CHECK(routing.route(0, 8 * 40, flow).loads == route.loads);
  }
  CHECK(spines.size() == 8);
  for (const auto& [spine, flows] : spines) CHECK((flows > 25 && flows < 80));  // 50 each on average, sigma 6.6
}

TEST_CASE("The spine that a hashed flow goes down is independent of the one that it goes up", "[property][network]") {
  // Pods of 2 spines below one core switch: 4 pairs.
  Cluster cluster = three_tiers(FabricKind::fat_tree, 40);
  cluster.shape.switch_ports = 64;
  const Topology topology(cluster, FabricDetail::switches);
  const Routing routing(topology, {RoutingPolicy::ecmp, 3, true});
  std::map<Stops, int> pairs;
  for (std::uint64_t flow = 0; flow < 400; ++flow) {
    const Stops path = stops(topology, routing.route(0, 8 * 20, flow));
    REQUIRE(path.size() == 10);  // pcie, nic, leaf, spine, core, spine, leaf, nic, pcie, gpu
    ++pairs[{path[3], path[5]}];
  }
  CHECK(pairs.size() == 4);
  for (const auto& [spines, flows] : pairs) CHECK((flows > 65 && flows < 135));  // 100 each on average, sigma 8.7
}

TEST_CASE("A dragonfly goes local, global, local", "[network]") {
  const Topology topology(frontier_like(300));
  const Routing routing(topology);
  SECTION("two nodes of a router") { CHECK(routing.route(0, 8).switches == 1); }
  SECTION("two routers of a group") {
    const FlowRoute route = routing.route(0, 8 * 127);
    CHECK(route.switches == 2);
    CHECK(route.latency == 1800_ns + 150_ns);
  }
  SECTION("two groups: four cables carry a quarter each") {
    const FlowRoute route = routing.route(8, 8 * 200);
    CHECK(route.switches == 4);
    CHECK(route.latency == 1800_ns + 600_ns);
    int global = 0;
    for (const LinkLoad& load : route.loads)
      if (topology.link(load.link).tier == 1) {
        CHECK(load.weight == kWholeFlow / 4);
        ++global;
      }
    CHECK(global == 4);
  }
}

TEST_CASE("A torus uses the shorter direction", "[network]") {
  const Topology topology(torus(60, {5, 4, 3}));
  const Routing routing(topology);
  CHECK(routing.route(0, 1).switches == 2);
  CHECK(routing.route(0, 2).switches == 2);   // backwards round a ring of 3
  CHECK(routing.route(0, 48).switches == 2);  // backwards round the ring of 5: 48 = 4 x 12
  CHECK(routing.route(0, 59).switches == 4);
  const FlowRoute opposite = routing.route(0, 6);  // 2 of 4 steps: half in each direction
  CHECK(opposite.switches == 3);
  for (const LinkLoad& load : opposite.loads)
    if (topology.link(load.link).kind == LinkKind::fabric) CHECK(load.weight == kWholeFlow / 2);
  CHECK(routing.route(0, 59).latency == 500_ns + 3 * 100_ns);
}

TEST_CASE("Routes avoid failed NICs and rails", "[network]") {
  Cluster cluster = dgx_h100(8 * 512);
  cluster.shape.switch_ports = 64;
  const auto detail = GENERATE(FabricDetail::planes, FabricDetail::switches);
  const int far = 8 * 300 + 2;
  SECTION("a failed NIC: its GPU uses the next one, and others send to it on that rail") {
    cluster.faults.slow_nics = {{300, 2, 0}};
    const Topology topology(cluster, detail);
    const FlowRoute route = Routing(topology).route(2, far);
    CHECK(route.connected);
    std::set<std::string> met;
    for (const std::string& stop : stops(topology, route)) met.insert(stop);
    CHECK(met.count("node0/nic3") == 1);
    CHECK(met.count("node300/nic3") == 1);
    CHECK(met.count("node300/host0") == 1);
    CHECK(met.count("node300/nic2") == 0);
  }
  SECTION("a failed rail is not used") {
    cluster.faults.lost_rails = {2};
    const Topology topology(cluster, detail);
    for (const int from : {2, 8 + 2, 8 * 77 + 5}) {
      const FlowRoute route = Routing(topology).route(from, far);
      CHECK(route.connected);
      check_conserved(topology, route, from, far);
    }
  }
}

TEST_CASE("Rails without a common switch are reached over NVLink, or not at all", "[network]") {
  Cluster cluster = dgx_h100(64);
  cluster.tiers = {{"leaf", 0, 1, 0_ns}};
  const Topology topology(cluster);
  CHECK(Routing(topology).route(0, 13).connected);
  CHECK_FALSE(Routing(topology, {RoutingPolicy::even, 1, false}).route(0, 13).connected);
}

TEST_CASE("Routes at 16,384 GPUs cost their own length only", "[network]") {
  const Topology topology(dgx_h100(16'384));
  const Routing routing(topology);
  std::size_t loads = 0;
  for (int rank = 0; rank < 16'384; ++rank) loads += routing.route(rank, (rank + 8) % 16'384).loads.size();
  CHECK(loads > 6 * 16'384);
  CHECK(loads < 11 * 16'384);
}

}  // namespace
}  // namespace tracecast
