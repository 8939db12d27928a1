#include "sim/network/bisection.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/network/fabrics.hpp"

namespace tracecast {
namespace {

TEST_CASE("Bisection bandwidth", "[oracle][network]") {
  SECTION("inside a node: half of the GPUs into the switch") {
    Cluster cluster = dgx_h100(8);
    cluster.node.nics = 0;
    // 4 GPUs over NVSwitch and PCIe: 4 (450 + 53) GB/s, less than nothing is lost on the way
    CHECK(bisect(Topology(cluster)).rate == Bandwidth{4 * 503'000'000'000});
  }
  SECTION("full fat tree: the NICs of half of the nodes") {
    CHECK(bisect(Topology(dgx_h100(8 * 64))).rate == Bandwidth{32 * 8 * 50'000'000'000});
    CHECK(bisect(Topology(dgx_h100(8 * 64), FabricDetail::switches)).rate == Bandwidth{32 * 8 * 50'000'000'000});
  }
  SECTION("oversubscribed 2:1 at the leaves and 4:1 above: an eighth of them") {
    CHECK(bisect(Topology(three_tiers(FabricKind::fat_tree, 64))).rate == Bandwidth{32 * 8 * 50'000'000'000 / 8});
  }
  SECTION("a ring of 6 in a 6 x 3 torus is cut twice") {
    CHECK(bisect(Topology(torus(18, {6, 3}))).rate == Bandwidth{2 * 3 * 6'800'000'000});
  }
  SECTION("two dragonfly groups: their four cables") {
    CHECK(bisect(Topology(frontier_like(256))).rate == Bandwidth{4 * 25'000'000'000});
  }
}

int vertex_named(const Topology& topology, const std::string& name) {
  for (int id = topology.first_switch(); id < topology.vertex_count(); ++id)
    if (topology.name(id) == name) return id;
  FAIL(name << " is not a switch");
  return -1;
}

std::int64_t rate_of(const Topology& topology, const std::vector<int>& links) {
  std::int64_t sum = 0;
  for (const int id : links) sum += topology.link(id).capacity.bytes_per_second;
  return sum;
}

TEST_CASE("bisection: the minimum cut has the rate of the maximum flow", "[property][network]") {
  for (const Topology& topology : {Topology(dgx_h100(8 * 64)), Topology(dgx_h100(8 * 64), FabricDetail::switches),
                                   Topology(three_tiers(FabricKind::fat_tree, 64)), Topology(torus(18, {6, 3})),
                                   Topology(frontier_like(256)), Topology(dgx_h100(8))}) {
    const Bisection bisection = bisect(topology);
    CHECK(bisection.rate.bytes_per_second == rate_of(topology, bisection.cut));
    for (const int id : bisection.cut) CHECK(topology.link(id).capacity.bytes_per_second > 0);
  }
  // Oversubscribed above the leaves: the cut is there, not at the NICs. A full tree has none narrower than its NICs.
  const Topology narrow(three_tiers(FabricKind::fat_tree, 64));
  for (const int id : bisect(narrow).cut) CHECK(narrow.link(id).kind == LinkKind::fabric);
}

TEST_CASE("bisection: a broken spine takes its share of an oversubscribed fabric", "[oracle][network]") {
  const Topology topology(three_tiers(FabricKind::fat_tree, 64), FabricDetail::switches);
  const Bandwidth whole = bisect(topology).rate;
  // The switches of the highest tier carry the bisection in equal parts; each loses its own.
  const std::string top = topology.name(topology.vertex_count() - 1);
  int of_tier = 0;
  for (int id = topology.first_switch(); id < topology.vertex_count(); ++id)
    of_tier +=
        topology.vertex(id).fabric_switch.tier == topology.vertex(topology.vertex_count() - 1).fabric_switch.tier;
  const Bisection less = bisect(topology, {vertex_named(topology, top)});
  CHECK(static_cast<double>(less.rate.bytes_per_second) ==
        Approx(static_cast<double>(whole.bytes_per_second) * (1 - 1.0 / of_tier)));
  CHECK(less.rate.bytes_per_second == rate_of(topology, less.cut));
  CHECK(cut_off_nodes(topology, {vertex_named(topology, top)}).empty());
}

TEST_CASE("cut_off_nodes: a node is cut off with all its leaves, not with one rail's", "[oracle][network]") {
  const Topology topology(dgx_h100(8 * 64), FabricDetail::switches);
  BrokenVertices leaves;
  // The switches that the NICs of node 0 are connected to.
  for (int nic = 0; nic < topology.node().nics; ++nic)
    leaves.insert(topology.first_switch() + topology.attached(0, nic));
  REQUIRE(leaves.size() == 8);
  BrokenVertices one{*leaves.begin()};
  CHECK(cut_off_nodes(topology, one).empty());
  std::vector<int> expected;
  for (int node = 0; node < topology.nodes(); ++node)
    if (leaves.contains(topology.first_switch() + topology.attached(node, 0))) expected.push_back(node);
  const std::vector<int> cut_off = cut_off_nodes(topology, leaves);
  CHECK(cut_off == expected);
  CHECK(cut_off_nodes(topology).empty());
}

}  // namespace
}  // namespace tracecast
