#include "sim/plan/expert_routing.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "sim/plan/plan.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

MixtureOfExperts deepseek() { return {.experts = 256, .topk = 8, .routing_groups = 8, .routing_group_limit = 4}; }

}  // namespace

TEST_CASE("routing: nodes that a token reaches", "[oracle][plan][moe]") {
  MixtureOfExperts moe{.experts = 4, .topk = 2};
  // Two experts on each of two nodes; a second expert is beside the first in one case of three: 1/3 + 2 2/3.
  CHECK(parts_reached(moe, 2) == Approx(1.0 / 3 + 4.0 / 3));
  CHECK(parts_reached(moe, 1) == Approx(1));
  CHECK(parts_reached(moe, 4) == Approx(2));  // an expert on each
  moe.topk = 4;
  CHECK(parts_reached(moe, 4) == Approx(4));
}

TEST_CASE("routing: groups limit the nodes to four of eight", "[oracle][plan][moe]") {
  const MixtureOfExperts limited = deepseek();
  // 8 of the 128 experts of four nodes leave a node out with probability C(96,8)/C(128,8).
  double none = 1;
  for (int i = 0; i < 8; ++i) none *= (96.0 - i) / (128.0 - i);
  CHECK(parts_reached(limited, 8) == Approx(4 * (1 - none)));
  CHECK(parts_reached(limited, 8) < 4);
  MixtureOfExperts anywhere = limited;
  anywhere.routing_groups = 0;
  CHECK(parts_reached(anywhere, 8) > 5);
  // Two groups on each of four nodes: the limit of four groups limits nothing.
  CHECK(parts_reached(limited, 4) == Approx(parts_reached(anywhere, 4)));
}

TEST_CASE("routing: a given imbalance is bounded by the capacity", "[plan][moe]") {
  Training training;
  Parallel parallel;
  parallel.ep = 8;
  const auto fullest = [&] { return expert_load(deepseek(), parallel, training).fullest; };
  CHECK(fullest() == 1);
  training.expert_imbalance = 1.5;
  CHECK(fullest() == 1.5);
  // One rank with all experts has all tokens; 256 ranks with one each of the 8 that a token chooses at most 32 times the mean.
  CHECK(expert_load(deepseek(), {}, training).fullest == 1);
  parallel.ep = 256;
  training.expert_imbalance = 40;
  CHECK(fullest() == 32);
  parallel.ep = 8;
  training.expert_imbalance = 1.5;
  training.expert_capacity_factor = 1.25;
  CHECK(fullest() == 1.25);
  training.expert_imbalance = 1.1;
  CHECK(fullest() == 1.1);
  CHECK(expert_load(deepseek(), {}, training).dropped == 0);
  training.expert_capacity_factor = 0.75;
  CHECK(fullest() == 0.75);
  CHECK(expert_load(deepseek(), {}, training).dropped == 0.25);
  // Experts that are filled up to their capacity all have it.
  training.expert_capacity_padding = true;
  training.expert_capacity_factor = 1.25;
  CHECK(fullest() == 1.25);
  training.expert_imbalance = 1;
  training.seq_length = 4096;
  training.expert_routing = ExpertRouting::uniform;
  CHECK(fullest() == 1.25);
  training.expert_capacity_factor = 1;
  CHECK(fullest() == 1);
  CHECK(expert_load(deepseek(), parallel, training).dropped > 0);
}

TEST_CASE("routing: counted tokens, dealt out and dropped", "[oracle][plan][moe]") {
  MixtureOfExperts moe{.experts = 4, .topk = 1};
  const Parallel two{.ep = 2};
  Training training;
  training.seq_length = 1'000'000'000;  // no noise
  training.expert_tokens = {4, 4, 1, 1};
  // Consecutive experts have 8 of 10 tokens on one rank; one large and one small expert have 5 on each.
  CHECK(expert_load(moe, two, training).fullest == Approx(1.6).epsilon(1e-3));
  training.expert_placement = ExpertPlacement::rebalanced;
  CHECK(expert_load(moe, two, training).fullest == Approx(1).epsilon(1e-3));
  // Of 4 tokens an expert takes 1.2 x 2.5: two experts drop 1 of 10 each, and a rank has 3 + 1.
  training.expert_capacity_factor = 1.2;
  const ExpertLoad limited = expert_load(moe, two, training);
  CHECK(limited.dropped == Approx(0.2).epsilon(1e-3));
  CHECK(limited.fullest == Approx(0.8).epsilon(1e-3));
  training.expert_placement = ExpertPlacement::contiguous;
  CHECK(expert_load(moe, two, training).fullest == Approx(1.2).epsilon(1e-3));
  // A token chooses an expert once: of two choices, one goes to the expert that would take both.
  moe.topk = 2;
  training.expert_capacity_factor = 0;
  training.expert_tokens = {97, 1, 1, 1};
  CHECK(expert_load(moe, two, training).fullest == Approx((1 + 1.0 / 3) / 1).epsilon(1e-3));
}

TEST_CASE("routing: random choices of many tokens average out", "[oracle][plan][moe]") {
  const MixtureOfExperts moe{.experts = 8, .topk = 1};
  const Parallel eight{.ep = 8};
  Training training{.expert_routing = ExpertRouting::uniform};
  // The largest of 8 normal deviates is 1.4236 above the mean; a rank's tokens deviate by sqrt(T / 8 x 7 / 8), T of 8 ranks.
  for (const int tokens : {1024, 16384}) {
    training.seq_length = tokens;
    const double deviation = std::sqrt(tokens * 7.0 / 8) / tokens;
    CHECK(expert_load(moe, eight, training).fullest - 1 == Approx(1.4236 * deviation).epsilon(0.15));
  }
  CHECK(expert_load(moe, eight, training) == expert_load(moe, eight, training));
}

TEST_CASE("routing: the more skewed, the fuller the fullest rank; rebalancing takes most of it back", "[plan][moe]") {
  Parallel parallel{.ep = 8};
  Training training{.seq_length = 16384, .expert_routing = ExpertRouting::skewed};
  double before = 1;
  for (const double skew : {0.25, 0.5, 1.0, 2.0}) {
    training.expert_skew = skew;
    training.expert_placement = ExpertPlacement::contiguous;
    const double neighbours = expert_load(deepseek(), parallel, training).fullest;
    CHECK(neighbours > before);
    training.expert_placement = ExpertPlacement::rebalanced;
    CHECK(expert_load(deepseek(), parallel, training).fullest - 1 < 0.2 * (neighbours - 1));
    before = neighbours;
  }
  // One rank has all experts.
  parallel.ep = 1;
  CHECK(expert_load(deepseek(), parallel, training).fullest == Approx(1).epsilon(0.01));
}

TEST_CASE("routing: what contradicts itself is refused", "[error][plan][moe]") {
  Model model = llama(32, 4096, 11008, 32, 32, 32000);
  const auto error = [&](const Training& changed) {
    Training training = changed;
    training.seq_length = 2048;
    training.global_batch_size = 1;
    return error_text(make_plan(model, {}, training, 1));
  };
  CHECK(error({.expert_routing = ExpertRouting::skewed}) ==
        "training.expert_routing = skewed: needs a model with experts");
  CHECK(error({.expert_tokens = {1, 2}}) == "training.expert_tokens = 2 numbers: needs a model with experts");
  model.moe = deepseek();
  model.moe->ffn_hidden = 2048;
  CHECK(error({.expert_imbalance = 1.2, .expert_routing = ExpertRouting::uniform}) ==
        "training.expert_imbalance = 1.2: follows from training.expert_routing = uniform (give one of the two)");
  CHECK(error({.expert_tokens = {1, 2}}) ==
        "training.expert_tokens = 2 numbers: needs one for each of the 256 experts");
  std::vector<int> few(256);
  few[7] = -1;
  CHECK(error({.expert_imbalance = 40}) ==
        "training.expert_imbalance = 40: is more than model.moe.experts / topk = 32: no expert gets more than every "
        "token once");
  CHECK(error({.expert_imbalance = 32}).empty());
  CHECK(error({.expert_tokens = few}) == "training.expert_tokens = 256 numbers: has a negative one");
  few[7] = 0;
  few[0] = 5;
  CHECK(error({.expert_tokens = few}) ==
        "training.expert_tokens = 256 numbers: gives tokens to 1 experts, but each token goes to 8");
}

TEST_CASE("routing: settings of experts need experts", "[error][plan][moe]") {
  Training training{.seq_length = 2048,
                    .global_batch_size = 1,
                    .moe_dispatch_dtype = Precision::fp8,
                    .expert_imbalance = 0.5,
                    .expert_capacity_factor = 1.5,
                    .fused_experts = true};
  Parallel parallel{.moe_dispatcher = MoeDispatcher::deepep, .moe_chunks = 2, .moe_shared_overlap = true};
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

// Megatron-Core refuses it, too (docs/references.md#token-drop).
TEST_CASE("routing: experts are not filled to their capacity with DeepEP", "[error][plan][moe]") {
  Model model = llama(32, 4096, 11008, 32, 32, 32000);
  model.moe = deepseek();
  model.moe->ffn_hidden = 2048;
  const auto error = [&](MoeDispatcher dispatcher) {
    const Training training{
        .seq_length = 2048, .global_batch_size = 8, .expert_capacity_factor = 1.25, .expert_capacity_padding = true};
    return error_text(make_plan(model, {.ep = 8, .moe_dispatcher = dispatcher}, training, 8));
  };
  CHECK(error(MoeDispatcher::deepep) ==
        "training.expert_capacity_padding = true: is not possible with parallel.moe_dispatcher = deepep (allowed: "
        "alltoall hybridep)");
  CHECK(error(MoeDispatcher::hybridep).empty());
  CHECK(error(MoeDispatcher::alltoall).empty());
}

TEST_CASE("routing: experts are not filled with more than every token once", "[error][plan][moe]") {
  Model model = llama(32, 4096, 11008, 32, 32, 32000);
  model.moe = MixtureOfExperts{.experts = 8, .topk = 2, .ffn_hidden = 2048};
  const auto error = [&](double factor, bool padding) {
    const Training training{.seq_length = 2048,
                            .global_batch_size = 8,
                            .expert_capacity_factor = factor,
                            .expert_capacity_padding = padding};
    return error_text(make_plan(model, {.ep = 8}, training, 8));
  };
  CHECK(error(4, true).empty());
  CHECK(
      error(4.5, true) ==
      "training.expert_capacity_factor = 4.5: with expert_capacity_padding is more than model.moe.experts / topk = 4, "
      "which every token once fills");
  CHECK(error(4.5, false).empty());  // a limit that nothing reaches
}

TEST_CASE("routing: copies of popular experts", "[oracle][plan][moe]") {
  const MixtureOfExperts moe{.experts = 4, .topk = 1};
  const Parallel four{.ep = 4};
  Training training;
  training.seq_length = 1'000'000'000;  // no noise
  training.expert_tokens = {7, 1, 1, 1};
  training.expert_placement = ExpertPlacement::rebalanced;
  CHECK(expert_load(moe, four, training).fullest == Approx(2.8).epsilon(1e-3));
  // All four copies are of the first expert: five places of 0.14, three of 0.1, two on each rank. One rank has 0.28.
  training.redundant_experts = 4;
  CHECK(expert_load(moe, four, training).fullest == Approx(4 * 0.28).epsilon(1e-3));
  // With twelve, the first has ten and the others two each; 16 places, the largest 0.07: 0.7 / 10 x 4 are 0.28, less 0.05s.
  training.redundant_experts = 12;
  CHECK(expert_load(moe, four, training).fullest == Approx(4 * 0.26).epsilon(1e-3));
}

TEST_CASE("routing: groups and their copies stay on a node", "[oracle][plan][moe]") {
  const MixtureOfExperts moe{.experts = 4, .topk = 1, .routing_groups = 2};
  const Parallel four{.ep = 4};
  Training training{.seq_length = 1'000'000'000,
                    .expert_tokens = {4, 4, 1, 1},
                    .expert_placement = ExpertPlacement::rebalanced,
                    .redundant_experts = 4};
  // Six places of 0.4 / 3 and two of 0.1: two ranks have two of the larger ones.
  CHECK(expert_load(moe, four, training).fullest == Approx(4 * 0.8 / 3).epsilon(1e-3));
  // On one of two nodes is a group with 0.8 of the tokens.
  training.expert_placement_nodes = 2;
  CHECK(expert_load(moe, four, training).fullest == Approx(1.6).epsilon(1e-3));
}

TEST_CASE("routing: what a placement by old shares is worth", "[plan][moe]") {
  const Parallel parallel{.ep = 8};
  Training training{.seq_length = 16384, .expert_routing = ExpertRouting::skewed};
  const double neighbours = expert_load(deepseek(), parallel, training).fullest;
  training.expert_placement = ExpertPlacement::rebalanced;
  const double known = expert_load(deepseek(), parallel, training).fullest;
  training.expert_rebalance_steps = 100;
  CHECK(expert_load(deepseek(), parallel, training).fullest == known);  // shares do not change
  double before = known;
  for (const int drift : {100'000, 1000, 100, 10}) {
    training.expert_drift_steps = drift;
    const double fullest = expert_load(deepseek(), parallel, training).fullest;
    CHECK(fullest > before);
    before = fullest;
  }
  training.expert_drift_steps = 1;
  CHECK(expert_load(deepseek(), parallel, training).fullest == Approx(neighbours).epsilon(0.1));  // nothing is known
  training.redundant_experts = 64;
  training.expert_drift_steps = 0;
  CHECK(expert_load(deepseek(), parallel, training).fullest < known);
}

TEST_CASE("routing: copies that contradict the layout are refused", "[error][plan][moe]") {
  Model model = llama(32, 4096, 11008, 32, 32, 32000);
  model.moe = deepseek();
  model.moe->ffn_hidden = 2048;
  Parallel parallel{.ep = 8};
  const auto error = [&](const Training& changed) {
    Training training = changed;
    training.seq_length = 2048;
    training.global_batch_size = 8;
    return error_text(make_plan(model, parallel, training, 8));
  };
  CHECK(error({.redundant_experts = 8}) ==
        "training.redundant_experts = 8: needs training.expert_placement = rebalanced");
  Training placed{.expert_placement = ExpertPlacement::rebalanced, .redundant_experts = 8};
  CHECK(error(placed).empty());
  placed.redundant_experts = 4;
  CHECK(error(placed) == "training.redundant_experts = 4: is not a multiple of parallel.ep = 8");
  placed.redundant_experts = 8;
  placed.expert_placement_nodes = 3;
  CHECK(
      error(placed) ==
      "training.expert_placement_nodes = 3: does not divide parallel.ep = 8\n"
      "training.expert_placement_nodes = 3: needs as many routing groups on each node (model.moe.routing_groups = 8)\n"
      "training.redundant_experts = 8: is not a multiple of expert_placement_nodes");
  placed.expert_placement_nodes = 1;
  placed.expert_drift_steps = 50;
  CHECK(error(placed) ==
        "training.expert_drift_steps = 50: needs training.expert_rebalance_steps\n"
        "training.expert_drift_steps = 50: needs training.expert_routing = skewed, whose shares drift");
  placed.expert_drift_steps = 0;
  parallel.zero_stage = 3;
  CHECK(error(placed) ==
        "training.redundant_experts = 8: needs parallel.zero_stage 0 or 1: gradients and weights of copies are whole");
}
