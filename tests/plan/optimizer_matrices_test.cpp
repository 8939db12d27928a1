#include "sim/plan/optimizer_matrices.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/plan/parameter_states.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "tests/support/models.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Training muon_training() { return {.seq_length = 4096, .global_batch_size = 512, .optimizer = OptimizerKind::muon}; }

std::string mistakes(const Parallel& parallel, const Training& training, int ranks = 8) {
  return error_text(make_plan(llama3_8b(), parallel, training, ranks));
}

std::int64_t count_of(const std::vector<OptimizerMatrices>& matrices) {
  std::int64_t sum = 0;
  for (const OptimizerMatrices& m : matrices) sum += m.count;
  return sum;
}

std::int64_t elements(const std::vector<OptimizerMatrices>& matrices) {
  return held_elements(matrices, false) + held_elements(matrices, true);
}

std::int64_t optimizer_bytes(const Model& model, const Training& training, int zero_stage, int ranks) {
  const Parallel parallel{.zero_stage = zero_stage};
  const Plan plan = value_of(make_plan(model, parallel, training, ranks));
  RankParameters held;
  for (const RankParameters& unit : stage_units(model, plan, plan.stages.front(), true)) held += unit;
  return parameter_states(held, plan).optimizer.count;
}

}  // namespace

TEST_CASE("Muon's matrices: all of the layers, none of the tables", "[oracle][plan][muon]") {
  const Model model = llama3_8b();
  const Plan plan = value_of(make_plan(model, {}, muon_training(), 1));
  const std::vector<OptimizerMatrices> matrices = optimizer_matrices(model, plan, plan.stages.front());
  // Query, key, value, output, gate, up, down.
  CHECK(count_of(matrices) == 7 * 32);
  CHECK(elements(matrices) == 32 * (2 * 4096LL * 4096 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336));
  const auto shape = [&](std::int64_t rows, std::int64_t columns) {
    const auto found = std::find_if(matrices.begin(), matrices.end(),
                                    [&](const OptimizerMatrices& m) { return m.rows == rows && m.columns == columns; });
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
  const Parallel parallel{.tp = 8};
  const auto of = [&](MuonTensorMode mode) {
    Training training = muon_training();
    training.muon_tensor = mode;
    const Plan plan = value_of(make_plan(model, parallel, training, 8));
    return optimizer_matrices(model, plan, plan.stages.front());
  };
  const auto has = [](const std::vector<OptimizerMatrices>& all, std::int64_t rows, std::int64_t columns) {
    return std::any_of(all.begin(), all.end(),
                       [&](const OptimizerMatrices& m) { return m.rows == rows && m.columns == columns && m.divided; });
  };
  CHECK(has(of(MuonTensorMode::blockwise), 14336 / 8, 4096));
  CHECK(has(of(MuonTensorMode::duplicated), 4096, 14336));
  CHECK(has(of(MuonTensorMode::distributed), 4096, 14336 / 8));
  for (const MuonTensorMode mode : {MuonTensorMode::blockwise, MuonTensorMode::duplicated, MuonTensorMode::distributed})
    CHECK(elements(of(mode)) * 8 == 32 * (2 * 4096LL * 4096 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336));
}

TEST_CASE("Muon's matrices of experts: those of the rank, one by one", "[oracle][plan][muon]") {
  const Model model = mixtral_8x7b();
  const Parallel parallel{.ep = 4};
  const Plan plan = value_of(make_plan(model, parallel, muon_training(), 8));
  const std::vector<OptimizerMatrices> matrices = optimizer_matrices(model, plan, plan.stages.front());
  CHECK(held_elements(matrices, true) == 32 * 2 * 3 * 4096LL * 14336);
  for (const OptimizerMatrices& m : matrices)
    if (m.expert) CHECK(m.count == 32 * 2 * 3);
}

TEST_CASE("matrices are dealt out so that no rank has much more than the mean", "[property][plan][muon]") {
  const Model model = llama3_8b();
  const Plan plan = value_of(make_plan(model, {}, muon_training(), 1));
  const std::vector<OptimizerMatrices> all = optimizer_matrices(model, plan, plan.stages.front());
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
  const OptimizerMatrices large{1, 5, 5, 2, false, false};
  const OptimizerMatrices small{1, 3, 3, 2, false, false};
  CHECK(fullest_share({large, small}, 3, 1) == std::vector<OptimizerMatrices>{small});
  CHECK(count_of(fullest_share(all, 4096, 1)) == 1);
}

TEST_CASE("Muon keeps one state of a matrix, and whole matrices where they are dealt out",
          "[oracle][plan][memory][muon]") {
  const Model model = llama3_8b();
  const auto states = [&](const Training& training, int zero_stage, int ranks) {
    return optimizer_bytes(model, training, zero_stage, ranks);
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
  training.matrix_sharding = MatrixSharding::gather;
  CHECK_THAT(mistakes({}, training), Catch::Contains("training.matrix_sharding = gather: needs training.optimizer"));
  training = muon_training();
  CHECK(mistakes({}, training).empty());
  training.dtype = Precision::fp16;
  CHECK_THAT(mistakes({}, training), Catch::Contains("training.optimizer = muon: needs bf16 or narrower"));
  training = muon_training();
  training.offload_optimizer = true;
  CHECK_THAT(mistakes({}, training), Catch::Contains("runs on the GPU"));
  Parallel parallel;
  training = muon_training();
  training.matrix_sharding = MatrixSharding::layerwise;
  CHECK_THAT(mistakes(parallel, training), Catch::Contains("needs parallel.zero_stage 1 or 2"));
  training.matrix_sharding = MatrixSharding::all_to_all;
  CHECK_THAT(mistakes(parallel, training), Catch::Contains("needs parallel.zero_stage 1, 2 or 3"));
  parallel.zero_stage = 1;
  CHECK(mistakes(parallel, training).empty());
  training.matrix_sharding = MatrixSharding::replicated;
  CHECK_THAT(mistakes(parallel, training), Catch::Contains("needs parallel.zero_stage 0"));
}

TEST_CASE("every optimizer has a row", "[plan][optimizer]") {
  for (const auto& [kind, name] : EnumNames<OptimizerKind>::table) {
    CAPTURE(name);
    CHECK(optimizer_of(kind).kind == kind);
  }
}

namespace {

Training training_with(OptimizerKind kind) {
  Training training = muon_training();
  training.optimizer = kind;
  return training;
}

/// fp32 numbers that are kept for whole matrices.
std::int64_t whole_states(const std::vector<OptimizerMatrices>& matrices, const Training& training) {
  std::int64_t sum = 0;
  for (const OptimizerMatrices& m : matrices) sum += m.count * state_elements(m, training);
  return sum;
}

constexpr std::int64_t square(std::int64_t side) { return side * side; }

/// Of one layer of Llama 3 8B: query and output 4096 x 4096, keys and values 1024 x 4096, three of 4096 x 14336.
constexpr std::int64_t kLayerElements = 2 * 4096LL * 4096 + 2 * 4096LL * 1024 + 3 * 4096LL * 14336;

}  // namespace

TEST_CASE("Shampoo works on blocks with both preconditioners, SOAP on matrices without those of long sides",
          "[oracle][plan][optimizer]") {
  const Model model = llama3_8b();
  Training training = training_with(OptimizerKind::shampoo);
  const auto matrices = [&] {
    const Plan plan = value_of(make_plan(model, {}, training, 1));
    return optimizer_matrices(model, plan, plan.stages.front());
  };
  // 14,336 is a block of 8,192 and one of 6,144.
  CHECK(count_of(matrices()) == 32 * (2 + 2 + 3 * 2));
  CHECK(elements(matrices()) == 32 * kLayerElements);
  const std::int64_t attention = 2 * 2 * square(4096) + 2 * (square(1024) + square(4096));
  CHECK(whole_states(matrices(), training) ==
        32 * 2 * (attention + 3 * (2 * square(4096) + square(8192) + square(6144))));
  training.preconditioner_block = 1000;  // 4,096 is four blocks of 1,000 and one of 96
  CHECK(elements(matrices()) == 32 * kLayerElements);
  CHECK(count_of(matrices()) == 32 * (2 * 25 + 2 * 5 * 2 + 3 * 5 * 15));

  training = training_with(OptimizerKind::soap);
  CHECK(count_of(matrices()) == 32 * 7);
  CHECK(whole_states(matrices(), training) == 32 * 2 * (attention + 3 * square(4096)));
  training.preconditioner_block = 14'336;
  CHECK(whole_states(matrices(), training) == 32 * 2 * (attention + 3 * (square(4096) + square(14'336))));
}

TEST_CASE("states of Shampoo, SOAP and Adafactor beside those of Adam", "[oracle][plan][memory][optimizer]") {
  const Model model = llama3_8b();
  const Training adam = training_with(OptimizerKind::adam);
  for (const OptimizerKind kind : {OptimizerKind::shampoo, OptimizerKind::soap}) {
    Training training = training_with(kind);
    const Plan plan = value_of(make_plan(model, {}, training, 1));
    const std::int64_t whole = 4 * whole_states(optimizer_matrices(model, plan, plan.stages.front()), training);
    const std::int64_t matrices = 32 * kLayerElements;
    const auto more = [&](int zero_stage, int ranks) {
      return optimizer_bytes(model, training, zero_stage, ranks) - optimizer_bytes(model, adam, zero_stage, ranks);
    };
    CHECK(more(0, 8) == whole);
    CHECK(more(1, 8) == whole / 8);
    CHECK(more(3, 8) == whole / 8);
    training.matrix_sharding = MatrixSharding::gather;  // momentum, variance and preconditioners of all matrices
    CHECK(more(3, 8) == whole + 8 * matrices - 8 * matrices / 8);
    training.matrix_sharding = MatrixSharding::gather_updates;  // only they are divided, not the master weights
    CHECK(more(0, 8) == whole / 8 - 8 * matrices + 8 * matrices / 8);
  }
  // Sums of rows and columns of matrices and both tables, a variance of norms, and no momentum.
  const std::int64_t sums = 32 * (2 * 8192LL + 2 * 5120 + 3 * 18432) + 2 * (128256 + 4096);
  const std::int64_t norms = 65 * 4096;
  const std::int64_t parameters = parameter_count(model).total();
  const std::int64_t saved =
      optimizer_bytes(model, adam, 0, 8) - optimizer_bytes(model, training_with(OptimizerKind::adafactor), 0, 8);
  CHECK(saved == 8 * parameters - 4 * norms - 4 * sums);
}

TEST_CASE("Muon's states dealt out without ZeRO", "[oracle][plan][memory][optimizer][muon]") {
  Training training = muon_training();
  const std::int64_t replicated = optimizer_bytes(llama3_8b(), training, 0, 8);
  training.matrix_sharding = MatrixSharding::gather_updates;
  CHECK(replicated - optimizer_bytes(llama3_8b(), training, 0, 8) == 4 * 32 * kLayerElements * 7 / 8);
}

TEST_CASE("keys of preconditioners act or are refused", "[error][plan][optimizer]") {
  Training training = training_with(OptimizerKind::adafactor);
  CHECK(mistakes({}, training).empty());
  training.preconditioner_interval = 5;
  CHECK(mistakes({}, training) == "training.preconditioner_interval = 5: needs training.optimizer = shampoo or soap");
  training = training_with(OptimizerKind::adafactor);
  training.matrix_sharding = MatrixSharding::replicated;
  CHECK(mistakes({}, training) ==
        "training.matrix_sharding = replicated: needs training.optimizer = muon, shampoo or soap");
  training = training_with(OptimizerKind::soap);
  training.preconditioner_block = 1024;
  CHECK(mistakes({}, training).empty());
  training.dtype = Precision::fp16;
  CHECK(mistakes({}, training) == "training.optimizer = soap: needs bf16 or narrower: there is no loss scaling");
  training = training_with(OptimizerKind::shampoo);
  training.matrix_sharding = MatrixSharding::gather_updates;
  Parallel parallel;
  CHECK(mistakes(parallel, training).empty());
  parallel.zero_stage = 1;
  CHECK(mistakes(parallel, training) ==
        "training.matrix_sharding = gather_updates: needs parallel.zero_stage 0: the states are whole");
}
