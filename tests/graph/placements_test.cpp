#include "sim/graph/placements.hpp"

#include <set>

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

/// Racks of 72 GPUs in units of 4, with stages of 60 or more ranks, which are no whole racks apart; the last rack is not full.
Scenario on_racks(int pp, int dp) {
  Scenario scenario = test::small_scenario(1, pp, dp);
  NodeSpec& node = scenario.cluster.node;
  node.gpus = 72;
  node.gpus_per_host = 4;
  node.nics = 2;
  scenario.cluster.tiers = {{"leaf", 2, 2, {}}, {"spine", 4, 1, {}}, {"core", 0, 1, {}}};
  scenario.training.global_batch_size = dp * pp;
  return scenario;
}

/// Placements of a plan and what they refer to.
struct Placed {
  explicit Placed(const Scenario& s)
      : plan(make_plan(s.model, s.parallel, s.training, s.cluster.world_size).value()),
        cluster(s.cluster),
        groups(plan, 0, plan.parallel.pp - 1, {}),
        placements(plan, cluster, groups) {}
  Plan plan;
  Cluster cluster;
  Groups groups;
  Placements placements;
};

}  // namespace

TEST_CASE("Boundaries that are no whole nodes apart: classes of ranks, or placed one by one",
          "[differential][graph][network]") {
  const bool flat = GENERATE(false, true);
  for (const int dp : {5, 60, 64, 72, 100, 128, 160}) {
    INFO("stages of " << dp << (flat ? " in one tier" : ""));
    Scenario scenario = on_racks(8, dp);
    if (flat) scenario.cluster.tiers.erase(scenario.cluster.tiers.begin(), scenario.cluster.tiers.end() - 1);
    Placed classes(scenario), stages(scenario);
    scenario.cluster.faults.slow_nics = {
        {0, 0, 1}};  // as fast as the others, but nodes may differ: each rank is placed
    Placed one_by_one(scenario);
    for (int pp = 0; pp + 1 < 8; ++pp) {
      std::set<std::int32_t> different;
      for (int rank = pp * dp; rank < (pp + 1) * dp; ++rank) {
        const std::int32_t number = one_by_one.placements.boundary(rank, pp + 1);
        CHECK(classes.placements.of(classes.placements.boundary(rank, pp + 1)) == one_by_one.placements.of(number));
        different.insert(number);
      }
      CHECK(stages.placements.common_boundary(pp, pp + 1).has_value() == (different.size() == 1));
    }
  }
}

TEST_CASE("A group by itself is placed as among the groups of its block", "[differential][graph][network]") {
  for (const int dp : {5, 60, 72, 96}) {
    INFO("stages of " << dp);
    Placed one(on_racks(4, dp));
    Placed all(on_racks(4, dp));
    for (int slot = 0; slot < kSlots; ++slot)
      for (const int begin : all.groups.block_begins(static_cast<Slot>(slot)))
        CHECK(one.placements.of(one.placements.of_group(static_cast<Slot>(slot), begin)) ==
              all.placements.of(
                  all.placements.block(static_cast<Slot>(slot),
                                       begin)[static_cast<std::size_t>(all.groups.part(static_cast<Slot>(slot), 0))]));
  }
}

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
