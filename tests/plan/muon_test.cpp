#include "sim/plan/muon.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/plan/parameter_states.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "tests/support/models.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Training muon_training() {
  Training training;
  training.seq_length = 4096;
  training.global_batch_size = 512;
  training.optimizer = OptimizerKind::muon;
  return training;
}

Plan plan_of(const Model& model, const Parallel& parallel, const Training& training, int ranks) {
  auto plan = make_plan(model, parallel, training, ranks);
  if (!plan) FAIL(to_string(plan.error()));
  return *plan;
}

std::string mistakes(const Parallel& parallel, const Training& training, int ranks = 8) {
  const auto plan = make_plan(llama3_8b(), parallel, training, ranks);
  return plan ? "" : to_string(plan.error());
}

std::int64_t count_of(const std::vector<MuonMatrices>& matrices) {
  std::int64_t sum = 0;
  for (const MuonMatrices& m : matrices) sum += m.count;
  return sum;
}

std::int64_t elements(const std::vector<MuonMatrices>& matrices) {
  return held_elements(matrices, false) + held_elements(matrices, true);
}

}  // namespace

TEST_CASE("Muon's matrices: all of the layers, none of the tables", "[oracle][plan][muon]") {
  const Model model = llama3_8b();
  const Plan plan = plan_of(model, {}, muon_training(), 1);
  const std::vector<MuonMatrices> matrices = muon_matrices(model, plan, plan.stages.front());
  // Query, key, value, output, gate, up, down.
  CHECK(count_of(matrices) == 7 * 32);
  CHECK(elements(matrices) == 32 * (2 * 4096LL * 4096 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336));
  const auto shape = [&](std::int64_t rows, std::int64_t columns) {
    const auto found = std::find_if(matrices.begin(), matrices.end(),
                                    [&](const MuonMatrices& m) { return m.rows == rows && m.columns == columns; });
    return found == matrices.end() ? 0 : found->count;
  };
  CHECK(shape(4096, 14336) == 3 * 32);
  CHECK(shape(4096, 4096) == 2 * 32);
  CHECK(shape(1024, 4096) == 2 * 32);
  CHECK(matrices.front().held_elements >= matrices.back().held_elements);
}

TEST_CASE("Muon and tensor parallelism: a part by itself, the whole matrix, or the side that is whole",
          "[oracle][plan][muon]") {
  const Model model = llama3_8b();
  Parallel parallel;
  parallel.tp = 8;
  const auto of = [&](MuonTensorMode mode) {
    Training training = muon_training();
    training.muon_tensor = mode;
    const Plan plan = plan_of(model, parallel, training, 8);
    return muon_matrices(model, plan, plan.stages.front());
  };
  const auto has = [](const std::vector<MuonMatrices>& all, std::int64_t rows, std::int64_t columns) {
    return std::any_of(all.begin(), all.end(),
                       [&](const MuonMatrices& m) { return m.rows == rows && m.columns == columns && m.divided; });
  };
  CHECK(has(of(MuonTensorMode::blockwise), 14336 / 8, 4096));
  CHECK(has(of(MuonTensorMode::duplicated), 4096, 14336));
  CHECK(has(of(MuonTensorMode::distributed), 4096, 14336 / 8));
  for (const MuonTensorMode mode : {MuonTensorMode::blockwise, MuonTensorMode::duplicated, MuonTensorMode::distributed})
    CHECK(elements(of(mode)) * 8 == 32 * (2 * 4096LL * 4096 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336));
}

TEST_CASE("Muon's matrices of experts: those of the rank, one by one", "[oracle][plan][muon]") {
  const Model model = mixtral_8x7b();
  Parallel parallel;
  parallel.ep = 4;
  const Plan plan = plan_of(model, parallel, muon_training(), 8);
  const std::vector<MuonMatrices> matrices = muon_matrices(model, plan, plan.stages.front());
  CHECK(held_elements(matrices, true) == 32 * 2 * 3 * 4096LL * 14336);
  for (const MuonMatrices& m : matrices)
    if (m.expert) CHECK(m.count == 32 * 2 * 3);
}

TEST_CASE("matrices are dealt out so that no rank has much more than the mean", "[property][plan][muon]") {
  const Model model = llama3_8b();
  const Plan plan = plan_of(model, {}, muon_training(), 1);
  const std::vector<MuonMatrices> all = muon_matrices(model, plan, plan.stages.front());
  std::int64_t before = elements(all) + 1;
  for (const int ranks : {1, 2, 3, 7, 16, 64, 100, 224, 225, 4096}) {
    const std::int64_t most = elements(fullest_share(all, ranks, 1));
    CAPTURE(ranks);
    CHECK(most * ranks >= elements(all));                              // not less than the mean
    CHECK(most <= elements(all) / ranks + all.front().held_elements);  // the rule's bound
    CHECK(most >= all.front().held_elements);                          // someone has the largest
    CHECK(most <= before);
    before = most;
  }
  CHECK(fullest_share(all, 1, 1) == all);
  // 5 and 5 elements go to the first two ranks, both 3 to the third, which has most.
  const MuonMatrices large{1, 5, 5, 2, false, false};
  const MuonMatrices small{1, 3, 3, 2, false, false};
  CHECK(fullest_share({large, small}, 3, 1) == std::vector<MuonMatrices>{small});
  CHECK(count_of(fullest_share(all, 4096, 1)) == 1);
}

TEST_CASE("Muon keeps one state of a matrix, and whole matrices where they are dealt out",
          "[oracle][plan][memory][muon]") {
  const Model model = llama3_8b();
  const auto states = [&](const Training& training, int zero_stage, int ranks) {
    Parallel parallel;
    parallel.zero_stage = zero_stage;
    const Plan plan = plan_of(model, parallel, training, ranks);
    RankParameters held;
    for (const RankParameters& unit : stage_units(model, plan, plan.stages.front(), true)) held += unit;
    return parameter_states(held, plan).optimizer.count;
  };
  Training adam = muon_training();
  adam.optimizer = OptimizerKind::adam;
  const std::int64_t matrices = 32 * (2 * 4096LL * 4096 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336);
  CHECK(states(adam, 0, 8) - states(muon_training(), 0, 8) == 4 * matrices);
  CHECK(states(adam, 1, 8) - states(muon_training(), 1, 8) == 4 * matrices / 8);
  CHECK(states(adam, 3, 8) - states(muon_training(), 3, 8) == 4 * matrices / 8);
  // 512 ranks, 224 matrices: the largest is held whole, master weights and momentum.
  CHECK(states(muon_training(), 1, 512) - states(adam, 1, 512) == 8LL * 4096 * 14336 - 12 * (matrices / 512));
  Training narrow = adam;
  narrow.optimizer = OptimizerKind::adam_8bit;
  CHECK(states(narrow, 0, 8) == states(adam, 0, 8) / 12 * 6);
}

TEST_CASE("keys of Muon act or are refused", "[plan][muon]") {
  Training adam = muon_training();
  adam.optimizer = OptimizerKind::adam;
  Training training = adam;
  training.muon_steps = 6;
  CHECK_THAT(mistakes({}, training), Catch::Contains("training.muon_steps = 6: needs training.optimizer = muon"));
  training = adam;
  training.muon_tensor = MuonTensorMode::distributed;
  CHECK_THAT(mistakes({}, training), Catch::Contains("training.muon_tensor = distributed: needs training.optimizer"));
  training = adam;
  training.muon_sharding = MuonSharding::gather;
  CHECK_THAT(mistakes({}, training), Catch::Contains("training.muon_sharding = gather: needs training.optimizer"));
  training = muon_training();
  CHECK(mistakes({}, training).empty());
  training.dtype = Precision::fp16;
  CHECK_THAT(mistakes({}, training), Catch::Contains("training.optimizer = muon: needs bf16 or narrower"));
  training = muon_training();
  training.offload_optimizer = true;
  CHECK_THAT(mistakes({}, training), Catch::Contains("runs on the GPU"));
  Parallel parallel;
  training = muon_training();
  training.muon_sharding = MuonSharding::layerwise;
  CHECK_THAT(mistakes(parallel, training), Catch::Contains("needs parallel.zero_stage 1 or 2"));
  training.muon_sharding = MuonSharding::all_to_all;
  CHECK_THAT(mistakes(parallel, training), Catch::Contains("needs parallel.zero_stage 1, 2 or 3"));
  parallel.zero_stage = 1;
  CHECK(mistakes(parallel, training).empty());
  training.muon_sharding = MuonSharding::replicated;
  CHECK_THAT(mistakes(parallel, training), Catch::Contains("needs parallel.zero_stage 0"));
}
