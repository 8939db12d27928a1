#include "sim/plan/expert_routing.hpp"

#include <catch2/catch.hpp>

#include "sim/plan/plan.hpp"
#include "tests/support/models.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

MixtureOfExperts deepseek() {
  MixtureOfExperts moe;
  moe.experts = 256;
  moe.topk = 8;
  moe.routing_groups = 8;
  moe.routing_group_limit = 4;
  return moe;
}

}  // namespace

TEST_CASE("routing: nodes that a token reaches", "[oracle][plan][moe]") {
  MixtureOfExperts moe;
  moe.experts = 4;
  moe.topk = 2;
  // Two experts on each of two nodes; a second expert is beside the first in one case of three: 1/3 + 2 2/3.
  CHECK(nodes_reached(moe, 2) == Approx(1.0 / 3 + 4.0 / 3));
  CHECK(nodes_reached(moe, 1) == Approx(1));
  CHECK(nodes_reached(moe, 4) == Approx(2));  // an expert on each
  moe.topk = 4;
  CHECK(nodes_reached(moe, 4) == Approx(4));
}

TEST_CASE("routing: groups limit the nodes to four of eight", "[oracle][plan][moe]") {
  const MixtureOfExperts limited = deepseek();
  // 8 of the 128 experts of four nodes leave a node out with probability C(96,8)/C(128,8).
  double none = 1;
  for (int i = 0; i < 8; ++i) none *= (96.0 - i) / (128.0 - i);
  CHECK(nodes_reached(limited, 8) == Approx(4 * (1 - none)));
  CHECK(nodes_reached(limited, 8) < 4);
  MixtureOfExperts anywhere = limited;
  anywhere.routing_groups = 0;
  CHECK(nodes_reached(anywhere, 8) > 5);
  // Two groups on each of four nodes: the limit of four groups limits nothing.
  CHECK(nodes_reached(limited, 4) == Approx(nodes_reached(anywhere, 4)));
}

TEST_CASE("routing: the fullest rank, bounded by the capacity", "[plan][moe]") {
  Training training;
  CHECK(expert_load(training) == 1);
  training.expert_imbalance = 1.5;
  CHECK(expert_load(training) == 1.5);
  training.expert_capacity_factor = 1.25;
  CHECK(expert_load(training) == 1.25);
  training.expert_imbalance = 1.1;
  CHECK(expert_load(training) == 1.1);
}

TEST_CASE("routing: settings of experts need experts", "[error][plan][moe]") {
  Training training;
  training.seq_length = 2048;
  training.global_batch_size = 1;
  training.expert_imbalance = 0.5;
  training.expert_capacity_factor = 1.5;
  training.moe_dispatch_dtype = Precision::fp8;
  training.fused_experts = true;
  Parallel parallel;
  parallel.moe_dispatcher = MoeDispatcher::deepep;
  parallel.moe_chunks = 2;
  parallel.moe_shared_overlap = true;
  const auto plan = make_plan(llama(32, 4096, 11008, 32, 32, 32000), parallel, training, 1);
  REQUIRE(!plan);
  CHECK(to_string(plan.error()) ==
        "training.expert_imbalance = 0.5: must be at least 1\n"
        "parallel.moe_dispatcher = deepep: needs a model with experts\n"
        "parallel.moe_chunks = 2: needs a model with experts\n"
        "parallel.moe_shared_overlap = true: needs a model with experts\n"
        "training.moe_dispatch_dtype = fp8: needs a model with experts\n"
        "training.expert_capacity_factor = 1.5: needs a model with experts\n"
        "training.fused_experts = true: needs a model with experts");
}
