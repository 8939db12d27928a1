#include "sim/graph/placements.hpp"

#include <catch2/catch.hpp>

#include "tests/support/small_scenario.hpp"

using namespace tracecast;

namespace {

/// 8 GPUs and 4 NICs per node: adjacent GPUs share a NIC.
Scenario with_shared_nics(int tp, int pp, int dp) {
  Scenario scenario = test::small_scenario(tp, pp, dp);
  scenario.cluster.node.nics = 4;
  scenario.training.global_batch_size = dp * pp;
  return scenario;
}

/// The placement of the slot's group that begins with rank `begin`.
GroupPlacement placed(const Scenario& s, Slot slot, int begin) {
  const Plan plan = make_plan(s.model, s.parallel, s.training, s.cluster.world_size).value();
  const Groups groups(plan, 0, plan.parallel.pp - 1, {});
  Placements placements(plan, s.cluster, groups);
  return placements.of(placements.block(slot, begin)[static_cast<std::size_t>(groups.part(slot, 0))]);
}

}  // namespace

TEST_CASE("A group has the NICs that no other group uses across nodes", "[oracle][graph][network]") {
  SECTION("groups of one GPU per node: each has half a NIC") {
    const GroupPlacement group = placed(with_shared_nics(8, 1, 4), Slot::gradients, 0);
    CHECK(group.nics == 0.5);
    CHECK(group.nics_per_rank == 0.5);
  }
  SECTION("two stages of seven ranks: [0..6], and [7 | 8..13], beside whose rank 7 nobody leaves the node") {
    const GroupPlacement group = placed(with_shared_nics(1, 2, 7), Slot::gradients, 7);
    CHECK(group.nodes == 2);
    CHECK(group.nics == 1);
    CHECK(group.ring_end_nics == 1);
  }
  SECTION("stages of five: [5..7 | 8, 9] and [15 | 16..19] leave node 1, over NICs of their own") {
    CHECK(placed(with_shared_nics(1, 4, 5), Slot::gradients, 5).nics == 1);
    CHECK(placed(with_shared_nics(1, 4, 5), Slot::gradients, 15).nics == 1);
  }
  SECTION("[6, 8, 10] and [7, 9, 11]: in node 0 both have the same NIC") {
    CHECK(placed(with_shared_nics(2, 2, 3), Slot::gradients, 6).nics == 0.5);
    CHECK(placed(with_shared_nics(2, 2, 3), Slot::gradients, 7).nics == 0.5);
  }
  SECTION("a missing GPU moves pairs over the end of a node") {
    Scenario s = with_shared_nics(2, 1, 8);
    s.cluster.faults.missing_gpus[0] = 1;
    CHECK(placed(s, Slot::tensor, 6).nodes == 2);
    CHECK(placed(s, Slot::tensor, 6).nics == 1);
    CHECK(placed(s, Slot::gradients, 0).nics == 2);  // two groups share all four
  }
  SECTION("a failed NIC has no neighbours to count: its GPU takes any other") {
    Scenario s = test::small_scenario(8, 1, 4);
    s.cluster.faults.lost_rails = {0};
    CHECK(placed(s, Slot::gradients, 0).nics_per_rank == 0.5);
  }
}
