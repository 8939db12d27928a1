// Rules of thumb of the seed documents and of DeepSpeed, beside our own numbers; ids of SEEDS.md, DOMAIN.md 2.
#include "sim/plan/memory_rules.hpp"

#include <catch2/catch.hpp>

#include "sim/model/model.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/plan.hpp"
#include "tests/support/models.hpp"

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
