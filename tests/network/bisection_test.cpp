#include "sim/network/bisection.hpp"

#include <catch2/catch.hpp>

#include "tests/network/fabrics.hpp"

namespace tracecast {
namespace {

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
    CHECK(bisection_bandwidth(Topology(three_tiers(FabricKind::fat_tree, 64))) ==
          Bandwidth{32 * 8 * 50'000'000'000 / 8});
  }
  SECTION("a ring of 6 in a 6 x 3 torus is cut twice") {
    CHECK(bisection_bandwidth(Topology(torus(18, {6, 3}))) == Bandwidth{2 * 3 * 6'800'000'000});
  }
  SECTION("two dragonfly groups: their four cables") {
    CHECK(bisection_bandwidth(Topology(frontier_like(256))) == Bandwidth{4 * 25'000'000'000});
  }
}

}  // namespace
}  // namespace tracecast
