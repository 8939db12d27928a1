/// Which replicas, and which states, a job loses with one node.
#include "sim/plan/replica_nodes.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Plan plan_of(const std::string& scenario, const std::vector<std::string>& overrides) {
  const Scenario s = shipped_scenario(scenario, overrides);
  return make_plan(s.model, s.parallel, s.training, s.cluster.world_size).value();
}

int on_a_node(const std::vector<std::string>& overrides) {
  return replicas_per_node(plan_of("llama3-405b-1024", overrides).grid, 8);
}

bool survives(const std::vector<std::string>& overrides) {
  return states_survive_node(plan_of("llama3-405b-1024", overrides), false, 8);
}

bool experts_survive(const std::vector<std::string>& overrides) {
  return states_survive_node(plan_of("deepseek-v3-2048", overrides), true, 8);
}

}  // namespace

TEST_CASE("replicas of a node follow the order of ranks", "[forecast][reliability]") {
  CHECK(on_a_node({}) == 1);  // tp 8
  const std::vector<std::string> narrow{"parallel.tp=1", "parallel.pp=8", "parallel.dp=128", "parallel.vpp=1"};
  const auto ordered = [&](const char* order) {
    std::vector<std::string> overrides = narrow;
    overrides.push_back(std::string("parallel.rank_order=") + order);
    return on_a_node(overrides);
  };
  CHECK(ordered("tp-cp-ep-dp-pp") == 8);  // the stages of eight replicas
  CHECK(ordered("tp-pp-dp") == 1);        // a whole replica
  CHECK(replicas_per_node(RankGrid({6, 1, 4, 1}, {Axis::tp, Axis::cp, Axis::dp, Axis::pp}), 8) == 2);
}

TEST_CASE("states survive a node if every shard is on another one, too", "[forecast][reliability]") {
  CHECK_FALSE(survives({}));  // zero_stage 3: one shard on each rank
  CHECK_FALSE(survives({"parallel.zero_stage=1"}));
  CHECK(survives({"parallel.zero_stage=0"}));
  CHECK(survives({"parallel.shard_group=4"}));  // two groups of four replicas
  CHECK_FALSE(
      survives({"parallel.zero_stage=0", "parallel.dp=1", "cluster.world_size=128", "training.global_batch_size=16"}));
}

TEST_CASE("experts that one node alone holds are lost with it", "[forecast][reliability]") {
  const Plan plan = plan_of("deepseek-v3-2048", {"parallel.zero_stage=0"});
  // 2,048 ranks / pp / ep: each expert is on so many ranks.
  const int copies = plan.world_size / (plan.parallel.pp * plan.parallel.ep * plan.parallel.etp);
  CAPTURE(copies, plan.parallel.pp, plan.parallel.ep, plan.parallel.etp);
  CHECK(experts_survive({"parallel.zero_stage=0"}) == (copies > 1));
  CHECK_FALSE(experts_survive({"parallel.zero_stage=1"}));
  // Half the ranks: each expert is on one, while what all replicas have is on many nodes.
  const std::vector<std::string> half{"parallel.zero_stage=0", "cluster.world_size=1024", "parallel.dp=64"};
  CHECK(states_survive_node(plan_of("deepseek-v3-2048", half), false, 8));
  CHECK_FALSE(experts_survive(half));
}

TEST_CASE("replicas that share experts or shards leave together", "[forecast][reliability]") {
  const auto together = [](const char* scenario, const std::vector<std::string>& overrides) {
    return replicas_together(plan_of(scenario, overrides));
  };
  CHECK(together("llama3-405b-1024", {}) == 1);
  CHECK(together("deepseek-v3-2048", {}) == 64);  // tp 1, 64 ranks with experts
  CHECK(together("deepseek-v3-2048", {"parallel.tp=2", "parallel.etp=1", "parallel.ep=32"}) == 16);
  const std::vector<std::string> hybrid{"parallel.shard_group=16"};
  CHECK(together("p5-llama2-13b-hybrid-32", hybrid) == 16);
  CHECK(together("p5-llama2-13b-128", {}) == 1);  // every rank has a shard, which the others have to load again
}
