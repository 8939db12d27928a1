#include "tools/accuracy/gemm_benchmark.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "tests/cost/round_gpu.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::kRoundGpu;
using tracecast::test::whole_waves;

TEST_CASE("benchmarks: what a benchmark's copies leave in L2 is read faster", "[oracle][accuracy]") {
  GemmModel model = whole_waves();
  const GpuPeak slow{1e18, 1e9, 1};  // only bytes count
  const GemmShape shape{1024, 2048, 512};
  const double a = 2.0 * 1024 * 512;
  const double b = 2.0 * 2048 * 512;
  const double c = 2.0 * 1024 * 2048;
  const auto seconds = [&](GemmLoop loop) {
    return looped_gemm_seconds(loop, model, slow, shape, gemm_elements(Precision::bf16));
  };
  const double from_memory = (a + b + c) / 1e9;
  model.benchmark.l2_speedup = 4;
  CHECK(seconds({1, 1}) == Approx(from_memory));  // no cache
  // Exactly as much as the cache holds: half of it is there, and takes a quarter of the time.
  model.benchmark.l2_bytes = a + b + c;
  CHECK(seconds({1, 1}) == Approx(from_memory * (0.5 + 0.5 / 4)));
  CHECK(seconds({}) == Approx(from_memory));
  // Twice as much: 1 / (1 + 2^6) of it is there.
  model.benchmark.l2_bytes = (3 * a + 3 * b + c) / 2;
  CHECK(seconds({3, 3}) == Approx(from_memory * (1 - 0.75 / 65)));
  // One A, which every multiplication reads, and five B in turn.
  model.benchmark.l2_bytes = a + b + c;
  const double share = 1 / (1 + std::pow((a + 5 * b + c) / model.benchmark.l2_bytes, 6));
  CHECK(seconds({1, 5}) == Approx((a * 0.625 + (b + c) * (1 - 0.75 * share)) / 1e9));
}

TEST_CASE("benchmarks: two nodes of a benchmark compute at rates around the model's", "[oracle][accuracy]") {
  GemmModel model = whole_waves();
  model.benchmark.node_rate = 1.1;
  const GemmShape shape{2560, 1280, 4096};
  const auto on_node = [&](int node) {
    return looped_gemm_seconds({6, 6, node}, model, kRoundGpu, shape, gemm_elements(Precision::bf16));
  };
  CHECK(on_node(0) ==
        Approx(gemm_seconds(whole_waves(), kRoundGpu, shape, gemm_elements(Precision::bf16))).epsilon(1e-9));
  CHECK(on_node(1) == Approx(on_node(0) / 1.1).epsilon(1e-6));
  CHECK(on_node(-1) == Approx(on_node(0) * 1.1).epsilon(1e-6));
}

TEST_CASE("benchmarks: quantising reads 16 bit and writes an operand", "[oracle][accuracy]") {
  GemmModel model = whole_waves();
  const GemmShape shape{1024, 512, 2048};
  const auto quantised = [&](Precision precision) {
    return quantisation_seconds(model, {1, 1e12, 1}, shape, gemm_elements(precision));
  };
  CHECK(quantised(Precision::fp8) == 0);  // none was measured
  model.benchmark.quantise_t0 = 2e-6;
  model.benchmark.quantise_efficiency = 0.5;
  CHECK(quantised(Precision::fp8) == Approx(2e-6 + 1024 * 2048 * 3 / 0.5e12));
  CHECK(quantised(Precision::nvfp4) == Approx(2e-6 + 1024 * 2048 * 2.5625 / 0.5e12));
}

TEST_CASE("benchmarks: a benchmark's choices are read between the nodes of their grid", "[oracle][accuracy]") {
  GemmModel model = whole_waves();
  CHECK(choice_factor(model, {7, 7, 7}) == 1);
  // 512 rows (the fourth node), 1024 columns (the third), k = 2048 (the third), and the next node along m, 4096 rows.
  model.benchmark.choices.assign(kChoiceNodes, 0);
  model.benchmark.choices[(3 * 6 + 2) * 5 + 2] = 200;
  model.benchmark.choices[(4 * 6 + 2) * 5 + 2] = -400;
  CHECK(choice_factor(model, {512, 1024, 2048}) == Approx(std::exp(0.2)));
  CHECK(choice_factor(model, {4096, 1024, 2048}) == Approx(std::exp(-0.4)));
  CHECK(choice_factor(model, {1024, 1024, 2048}) == Approx(std::exp((2 * 0.2 - 0.4) / 3)));  // a third of the way
  CHECK(choice_factor(model, {512, 2048, 4096}) == Approx(std::exp(0.2 / 4)));  // half of the way along n and k
  CHECK(choice_factor(model, {128, 1024, 2048}) == 1);
  // Beyond the last node its value holds.
  model.benchmark.choices.assign(kChoiceNodes, 0);
  model.benchmark.choices.back() = 100;
  CHECK(choice_factor(model, {1 << 20, 1 << 17, 1 << 18}) == Approx(std::exp(0.1)));
  for (const GemmShape& shape : {GemmShape{1, 32, 32}, GemmShape{77, 5000, 300}, GemmShape{100000, 7, 1 << 20}}) {
    double sum = 0;
    for (const ChoiceNode& node : choice_nodes(shape)) {
      CHECK(node.index < kChoiceNodes);
      CHECK(node.share >= 0);
      sum += node.share;
    }
    CHECK(sum == Approx(1));
  }
}
