// Rules of thumb of the seed documents and of DeepSpeed, beside our own numbers; ids of SEEDS.md, DOMAIN.md 2.
#include "sim/plan/memory_rules.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/model/model.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/search/recipe.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

double gb(Bytes bytes) { return static_cast<double>(bytes.count) * 1e-9; }

/// 2 + 2 + 12 bytes per parameter.
Training sixteen_bytes() {
  Training training;
  training.grad_reduce_dtype = Precision::bf16;
  training.seq_length = 2048;
  training.global_batch_size = 64;
  return training;
}

double states_gb(std::int64_t parameters, int zero_stage, int ranks) {
  return gb(model_states(parameters, sixteen_bytes(), zero_stage, ranks).total());
}

}  // namespace

TEST_CASE("DeepSpeed's own estimates of model states", "[seeds][memory][oracle]") {
  CHECK(gb(deepspeed_zero2_estimate(7'500'000'000, 64)) == Approx(15 + 18 * 7.5 / 64));
  CHECK(gb(deepspeed_zero3_estimate(7'500'000'000, 200'000'000, 64)) == Approx(18 * 7.5 / 64 + 0.8));
  // Two bytes per parameter more than ours: it counts the gradients twice.
  const double ours = states_gb(7'500'000'000, 2, 64);
  CHECK(gb(deepspeed_zero2_estimate(7'500'000'000, 64)) - ours == Approx((18 - 14) * 7.5 / 64));
}

TEST_CASE("3-9: S3's activation rule gives 343.6 GB where 34 bytes give 730.1", "[seeds][memory]") {
  CHECK(gb(seed_activation_rule(8, 4096, 8192, 80)) == Approx(343.6).epsilon(1e-3));
  CHECK(34.0 / 16 * gb(seed_activation_rule(8, 4096, 8192, 80)) == Approx(730.1).epsilon(1e-3));
  // Our own count of Llama-3 70B: 274,432 bytes per token and layer, close to 34 h.
  const Model model = llama3_70b();
  Training training = sixteen_bytes();
  training.seq_length = 4096;
  training.micro_batch_size = training.global_batch_size = 8;
  const Plan plan = make_plan(model, {}, training, 1).value();
  CHECK(80 * gb(layer_activation_bytes(model, plan, 0)) == Approx(80 * 8 * 4096 * 274'432e-9).epsilon(1e-3));
}

TEST_CASE("3-25 3-26: S3's tensor degree: 280 / (80 - 20) is 4.67, so 8", "[seeds][plan]") {
  CHECK(280.0 / (80 - 20) == Approx(4.67).epsilon(1e-3));
  CHECK(seed_tensor_parallel(280, 80, 20, 8) == 8);
  CHECK(seed_tensor_parallel(240, 80, 20, 8) == 4);
  CHECK(seed_tensor_parallel(280, 80, 50, 8) == 0);  // ten GPUs would be needed
  CHECK(seed_tensor_degrees(8) == std::vector<int>{1, 2, 4, 8});
  CHECK(seed_tensor_degrees(4) == std::vector<int>{1, 2, 4});
}

TEST_CASE("3-45: S3's second step: TP, FSDP, TP + FSDP or TP + PP + FSDP", "[seeds][plan]") {
  // H100 of 80 GB with 20 GB of activations, nodes of 8: 2 + 2 bytes per parameter over what is left decide.
  const auto chosen = [](double parameters, int gpus) { return seed_strategy(parameters, 80, 20, gpus, 8); };
  CHECK(chosen(8.03e9, 8) == SeedStrategy::fsdp);  // 32 of 60 GB
  CHECK(chosen(13.0e9, 16) == SeedStrategy::fsdp);
  CHECK(chosen(70.55e9, 8) == SeedStrategy::tp);  // 282 GB: 4.7 GPUs
  CHECK(chosen(70.55e9, 32) == SeedStrategy::tp_fsdp);
  CHECK(chosen(405.8e9, 256) == SeedStrategy::tp_pp_fsdp);  // 1,623 GB: 27 GPUs
  // Both sides of the boundaries: 60 GB of a GPU, 480 GB of a node.
  CHECK(chosen(14.9e9, 64) == SeedStrategy::fsdp);
  CHECK(chosen(15.1e9, 64) == SeedStrategy::tp_fsdp);
  CHECK(chosen(119.9e9, 64) == SeedStrategy::tp_fsdp);
  CHECK(chosen(120.1e9, 64) == SeedStrategy::tp_pp_fsdp);
  CHECK(std::string(to_string(SeedStrategy::tp_pp_fsdp)) == "TP + PP + FSDP");
}

TEST_CASE("3-45: the rule says of the P5 table's runs what the table has", "[seeds][plan]") {
  const auto rule = [&](const std::string& name, const std::vector<std::string>& overrides = {}) {
    return rule_of_thumb(shipped_scenario(name, overrides));
  };
  CHECK(rule("p5-llama2-7b-8") == SeedStrategy::fsdp);
  CHECK(rule("p5-llama2-13b-16") == SeedStrategy::fsdp);
  CHECK(rule("p5-llama3-70b-32", {"cluster.world_size=8", "parallel.dp=1"}) == SeedStrategy::tp);
  CHECK(rule("p5-llama3-70b-32") == SeedStrategy::tp_fsdp);
  CHECK(rule("p5-llama3-405b-256") == SeedStrategy::tp_pp_fsdp);
}

TEST_CASE("3-36 3-37 3-46: S3's rules for stages and micro-batches", "[seeds][plan]") {
  CHECK(seed_least_microbatches(4) == 16);
  CHECK((4.0 - 1) / (5 * 4 - 1) == Approx(0.158).epsilon(1e-2));  // bubble at M = 4 P
  CHECK(seed_pipeline_is_practical(8));
  CHECK_FALSE(seed_pipeline_is_practical(16));
  CHECK_FALSE(seed_pipeline_is_practical(1));
  CHECK(seed_pipeline_parallel(1024, 8, 8) == 16);
  // The circle: DP from that PP is the DP that was put in.
  CHECK(1024 / (8 * seed_pipeline_parallel(1024, 8, 8)) == 8);
}

TEST_CASE("3-35: S3's most stages say how often a stage fits on a GPU, not how many stages a model may have",
          "[seeds][memory]") {
  // 70B with 16 bytes over TP 8 and four stages: 35 GB of states on each GPU, 5 GB of activations: the rule allows two stages.
  const double four_stages = 70.0 * 16 / 8 / 4 + 5;
  CHECK(four_stages == 40);
  CHECK(seed_most_stages(80, four_stages) == 2);
  // More stages make a stage smaller, and the rule then allows more: it is a circle.
  CHECK(seed_most_stages(80, 70.0 * 16 / 8 / 16 + 5) == 5);
  CHECK(seed_most_stages(80, 70.0 * 16 / 8 / 2 + 5) == 1);  // two stages: fits, by the rule one stage would have to do
}
