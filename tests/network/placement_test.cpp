#include <catch2/catch.hpp>

#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"
#include "tests/network/clusters.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {
namespace {

using namespace literals;

TEST_CASE("A group inside one node meets no network", "[network]") {
  const GroupPlacement placed = place(dgx_h100(64), range(8, 16), 1);
  CHECK(placed.ranks == 8);
  CHECK(placed.nodes == 1);
  CHECK(placed.ranks_per_node == 8);
  CHECK(placed.extra_latency == 0_ns);
}

TEST_CASE("The NICs that a group can call its own", "[network]") {
  SECTION("a whole node has all of them") { CHECK(place(dgx_h100(64), range(64), 1).nics == 8); }
  SECTION("8 dp groups of one rank per node each have the NIC beside their GPU") {
    CHECK(place(dgx_h100(64), range(8, 3, 8), 8).nics == 1);
  }
  SECTION("alone, a rank still has only the NIC beside it") { CHECK(place(dgx_h100(64), range(8, 3, 8), 1).nics == 1); }
  SECTION("two ranks per node: two NICs each, whether or not the siblings communicate") {
    const std::vector<int> ranks{0, 4, 8, 12};
    CHECK(place(dgx_h100(16), ranks, 4).nics == 2);
    CHECK(place(dgx_h100(16), ranks, 1).nics == 2);
  }
  SECTION("4 NICs for 8 GPUs: two GPUs share one") {
    Cluster cluster = dgx_a100(64);
    cluster.node.nics = 4;
    CHECK(place(cluster, range(64), 1).nics == 4);
    CHECK(place(cluster, range(8, 0, 8), 1).nics == 1);
    CHECK(place(cluster, range(8, 0, 8), 8).nics == 0.5);
    CHECK(place(cluster, std::vector<int>{0, 1, 8, 9}, 1).nics == 1);  // neighbours: the same NIC
    CHECK(place(cluster, std::vector<int>{0, 2, 8, 10}, 1).nics == 2);
  }
  SECTION("32 NICs for 8 GPUs: four beside each") {
    Cluster cluster = dgx_h100(64);
    cluster.node.nics = 32;
    CHECK(place(cluster, range(8, 5, 8), 8).nics == 4);
    CHECK(place(cluster, range(64), 1).nics == 32);
  }
  SECTION("an NVLink domain of 18 hosts has the NICs of all of them") {
    Cluster cluster = dgx_h100(144);
    cluster.node.gpus = 72;
    cluster.node.gpus_per_host = 4;
    cluster.node.nics = 4;
    CHECK(place(cluster, range(144), 1).nics == 72);
    CHECK(place(cluster, range(2, 71, 72), 72).nics == 1);
    CHECK(place(cluster, range(2, 71, 72), 1).nodes == 2);
  }
  SECTION("the domain with the fewest NICs sets the pace") {
    CHECK(place(dgx_h100(16), std::vector<int>{0, 1, 2, 8}, 1).nics == 1);
    CHECK(place(dgx_h100(16), std::vector<int>{0, 1, 2, 8}, 1).ranks_per_node == 3);
  }
}

TEST_CASE("In an all-to-all the rank with the smallest share of the NICs decides", "[oracle][network]") {
  const auto share = [](int nics, const std::vector<int>& ranks, int sharing) {
    Cluster cluster = dgx_h100(64);
    cluster.node.nics = nics;
    return place(cluster, ranks, sharing).nics_per_rank;
  };
  CHECK(share(8, range(64), 1) == 1);
  CHECK(share(7, range(64), 1) == 0.5);  // GPUs 0 and 1 share a NIC
  CHECK(share(9, range(64), 1) == 1);    // GPU 7 has two, the others one
  CHECK(share(32, range(64), 1) == 4);
  CHECK(share(4, range(8, 0, 8), 1) == 1);  // alone on its NIC
  CHECK(share(4, range(8, 0, 8), 8) == 0.5);
  CHECK(share(7, range(8, 7, 8), 8) == 1);  // next to a NIC of its own
}

TEST_CASE("Where a ring of send_recv enters a node, only the ranks of siblings share the NIC", "[oracle][network]") {
  Cluster cluster = dgx_h100(64);
  CHECK(place(cluster, range(64), 1).ring_end_nics == 1);
  cluster.node.nics = 4;
  CHECK(place(cluster, range(64), 1).ring_end_nics == 1);  // GPU 0 has it while GPU 1 sends inside the node
  CHECK(place(cluster, range(16, 0, 4), 4).ring_end_nics == 0.5);
  CHECK(place(cluster, range(8, 3, 8), 8).ring_end_nics == 0.5);
}

TEST_CASE("The latency grows with the tiers that a group crosses", "[network]") {
  const Cluster cluster = dgx_h100(8 * 512);
  const auto over = [&](int nodes) { return place(cluster, range(nodes, 0, 8), 8); };
  CHECK(over(32).extra_latency == 0_ns);
  CHECK(over(33).extra_latency == 500_ns);
  CHECK(over(256).extra_latency == 500_ns);
  CHECK(over(257).extra_latency == 1_us);
  SECTION("two neighbours in different units cross as well") {
    CHECK(place(cluster, std::vector<int>{31 * 8, 32 * 8}, 8).extra_latency == 500_ns);
  }
  SECTION("another rail lies behind the spine, but on a plain fat tree it does not matter") {
    const std::vector<int> ranks{0, 9};
    CHECK(place(cluster, ranks, 1).extra_latency == 500_ns);
    Cluster plain = cluster;
    plain.fabric = FabricKind::fat_tree;
    CHECK(place(plain, ranks, 1).extra_latency == 0_ns);
  }
}

TEST_CASE("Oversubscription counts by the share of nodes that send across", "[network]") {
  Cluster cluster = dgx_h100(8 * 3072);
  cluster.fabric = FabricKind::fat_tree;
  cluster.tiers = {{"rack", 2, 1, 500_ns}, {"pod", 384, 7, 500_ns}, {"aggregation", 0, 1, 0_ns}};
  SECTION("inside a pod not at all") {
    const GroupPlacement placed = place(cluster, range(128, 0, 8), 8);
    CHECK(std::max(1.0, placed.oversubscription * placed.crossing) == 1);
  }
  SECTION("a ring of adjacent nodes over all pods crosses with one node of 384") {
    const GroupPlacement placed = place(cluster, range(3072, 0, 8), 8);
    CHECK(placed.oversubscription * placed.crossing <= 1);
  }
  SECTION("a ring with one node in each pod sends everything across") {
    const GroupPlacement placed = place(cluster, range(8, 0, 384 * 8), 8);
    CHECK(placed.oversubscription == 7);
    CHECK(placed.crossing == 1);
  }
  SECTION("pipeline neighbours 128 nodes apart: a third of the pod sends across") {
    const GroupPlacement placed = place(cluster, std::vector<int>{300 * 8, 428 * 8}, 8);
    CHECK(placed.oversubscription == 7);
    CHECK(placed.crossing == Approx(1.0 / 3));
  }
}

TEST_CASE("Oversubscribed tiers above each other multiply, and an all-to-all crosses with all that leaves",
          "[network]") {
  Cluster cluster = dgx_h100(8 * 8);
  cluster.fabric = FabricKind::fat_tree;
  cluster.tiers = {{"rack", 1, 3.5, 500_ns}, {"pod", 2, 7, 500_ns}, {"core", 0, 1, 0_ns}};
  const GroupPlacement placed = place(cluster, range(64), 1);
  // Every second neighbour is in another pod, whose uplinks have 1 / 24.5 of the NICs below.
  CHECK(placed.uplink_slowdown() == Approx(0.5 * 3.5 * 7));
  // Of seven other nodes six.
  CHECK(placed.all_to_all_slowdown == Approx(3.5 * 7 * 6 / 7));
  cluster.tiers[1].oversubscription = 1;
  CHECK(place(cluster, range(64), 1).uplink_slowdown() == 3.5);
}

TEST_CASE("An all-to-all over oversubscribed uplinks takes what its flows take", "[network]") {
  Cluster cluster = shipped_topology("meta-24k-h100");
  cluster.world_size = 6144;
  const CollectiveCall call{Collective::all_to_all, 4_GiB};
  const double alone = seconds(make_analytic_network(cluster, "Hopper")->cost(call, place_world(cluster)).duration);
  // Half of the GPUs are in the other pod of 7:1, behind 1 / 7 of their NICs' 50 GB/s.
  const double bytes = 4.0 * (1 << 30) / 2;
  CHECK(alone == Approx(bytes / (50e9 / 7)).epsilon(0.1));
}

TEST_CASE("A group has its own NICs where some have more GPUs than others", "[oracle][network]") {
  Cluster cluster = dgx_h100(64);
  cluster.node.nics = 7;  // GPUs 0 and 1 share the first
  CHECK(place(cluster, range(8, 0, 8), 8).nics == 0.5);
  CHECK(place(cluster, range(8, 2, 8), 8).nics ==
        7.0 / 8);  // its own NIC, of which no group has more than an eighth of all
  CHECK(place(cluster, range(8, 0, 8), 1).nics == 1);
  cluster.faults.slow_nics = {{2, 0, 0.5}};  // as much slower
  CHECK(place(cluster, range(8, 0, 8), 8).nics == 0.25);
  CHECK(place(cluster, range(8, 2, 8), 8).nics == 7.0 / 8);
}

}  // namespace
}  // namespace tracecast
