#include "sim/graph/slow_groups.hpp"

#include <catch2/catch.hpp>

#include "tests/support/small_scenario.hpp"

using namespace tracecast;

TEST_CASE("slow groups: each tensor group is as slow as its slowest rank", "[oracle][perturb][many]") {
  const Scenario scenario = test::small_scenario(4, 2, 2);  // 16 ranks
  const Plan plan = make_plan(scenario.model, scenario.parallel, scenario.training, 16).value();
  Perturbation perturbation;
  perturbation.slow_ranks = {{{2, 2}, 1.2}, {{6, 9}, 1.5}, {{9, 9}, 2}, {{15, 15}, 0.5}};
  const Perturbation grouped = with_slow_groups(perturbation, plan);
  // 0-3 as rank 2, 4-7 as 6 and 7, 8-11 as 9; 15 is faster than the rest of its group, which it waits for.
  CHECK(grouped.slow_ranks == std::vector<Perturbation::SlowRanks>{{{0, 3}, 1.2}, {{4, 7}, 1.5}, {{8, 11}, 2}});
}

TEST_CASE("slow groups: a group of which all ranks are faster is faster, and strides are the plan's",
          "[oracle][perturb][many]") {
  Scenario scenario = test::small_scenario(2, 1, 4);
  scenario.parallel.rank_order = "dp-tp-cp-ep-pp";
  const Plan plan = make_plan(scenario.model, scenario.parallel, scenario.training, 8).value();
  REQUIRE(plan.grid.stride(Axis::tp) == 4);
  Perturbation perturbation;
  perturbation.slow_ranks = {{{1, 1}, 0.5}, {{5, 5}, 0.8}, {{2, 2}, 1.5}};
  CHECK(with_slow_groups(perturbation, plan).slow_ranks ==
        std::vector<Perturbation::SlowRanks>{{{1, 1}, 0.8}, {{2, 2}, 1.5}, {{5, 5}, 0.8}, {{6, 6}, 1.5}});
}

TEST_CASE("slow groups: only entries that leave too many classes are grouped", "[perturb][many]") {
  Perturbation perturbation;
  perturbation.slow_ranks.assign(32, {{0, 0}, 1.1});
  const Parallel parallel{.tp = 8, .pp = 16};
  CHECK_FALSE(groups_slow_ranks(perturbation, parallel));
  perturbation.slow_ranks.push_back({{1, 1}, 1.1});
  CHECK(groups_slow_ranks(perturbation, parallel));
  perturbation.speed_spread = 0.01;  // no two ranks are alike anyway
  CHECK_FALSE(groups_slow_ranks(perturbation, parallel));
}
