#include "sim/cost/gemm.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "tests/cost/round_gpu.hpp"

using namespace tracecast;
using tracecast::test::kRoundGpu;
using tracecast::test::whole_waves;

namespace {

/// Tiles below 256 x 128 and split-K lose so much that they are never chosen: every step of the wave count shows.
GemmModel one_tile_size() {
  GemmModel model = whole_waves();
  model.tile_exponent = 0.5;
  model.split_cost = 1;
  return model;
}

GemmShape square(std::int64_t side, std::int64_t k) { return {side, side, k}; }

double bf16(const GemmModel& model, const GemmShape& shape, const GpuPeak& gpu = kRoundGpu) {
  return gemm_seconds(model, gpu, shape, gemm_elements(Precision::bf16));
}

}  // namespace

TEST_CASE("gemm: waves of tiles are counted as on 108 SMs of an A100", "[oracle][cost]") {
  // Tiles of 256 x 128. 1792^2: 7 x 14 = 98 tiles fit one wave; one more row and column: 8 x 15 = 120 need two.
  // The time doubles for 0.1 % more work.
  const GpuPeak a100{108e12, 1e15, 108};
  const double one_tile = 2.0 * 256 * 128 * 4096 / 1e12;
  CHECK(bf16(one_tile_size(), square(1792, 4096), a100) == Approx(one_tile).epsilon(1e-6));
  CHECK(bf16(one_tile_size(), square(1793, 4096), a100) == Approx(2 * one_tile).epsilon(1e-6));
}

TEST_CASE("gemm: a shape that fills whole waves runs at the peak", "[oracle][cost]") {
  // 2560 x 1280 is 10 x 10 tiles of 256 x 128: one wave of 100 SMs, each 2 x 256 x 128 x k FLOPs at 1e12 FLOP/s.
  const double one_tile = 2.0 * 256 * 128 * 4096 / 1e12;
  CHECK(bf16(one_tile_size(), {2560, 1280, 4096}) == Approx(one_tile).epsilon(1e-6));
  CHECK(bf16(one_tile_size(), {2560, 2560, 4096}) == Approx(2 * one_tile).epsilon(1e-6));
  CHECK(bf16(one_tile_size(), {2560, 1280, 4096}, {90e12, 1e15, 90}) == Approx(2 * one_tile).epsilon(1e-6));
}

TEST_CASE("gemm: smaller tiles and fractional waves soften the steps", "[cost]") {
  const GemmShape full{2560, 1280, 4096};
  const GemmShape beyond{2560, 1281, 4096};
  const auto step = [&](const GemmModel& model) { return bf16(model, beyond) / bf16(model, full); };
  CHECK(step(one_tile_size()) == Approx(2).epsilon(1e-6));
  CHECK(step(whole_waves()) < 1.1);
  CHECK(step(whole_waves()) > 1281.0 / 1280);
  GemmModel fractional = one_tile_size();
  fractional.wave_weight = 0;  // 110 tiles on 100 SMs
  CHECK(step(fractional) == Approx(1.1).epsilon(1e-6));
}

TEST_CASE("gemm: never faster than the peak or the memory allow", "[property][cost]") {
  const GpuPeak gpu{989.4e12, 3.35e12, 132};
  GemmModel model = whole_waves();
  model.memory_efficiency = 1;
  for (const std::int64_t m : {1, 17, 128, 1000, 4096, 10000}) {
    for (const std::int64_t n : {32, 129, 1024, 5120}) {
      for (const std::int64_t k : {64, 100, 2048, 16384}) {
        const double md = static_cast<double>(m);
        const double nd = static_cast<double>(n);
        const double kd = static_cast<double>(k);
        const double seconds = bf16(model, {m, n, k}, gpu);
        CHECK(seconds >= 2 * md * nd * kd / gpu.flops * (1 - 1e-12));
        CHECK(seconds >= 2 * (md * kd + kd * nd + md * nd) / gpu.bandwidth * (1 - 1e-12));
      }
    }
  }
}

TEST_CASE("gemm: more work never takes less time", "[property][cost]") {
  GemmModel model = whole_waves();
  model.k0 = 100;
  model.tile_exponent = 0.1;
  model.reread = 0.01;
  model.t0 = 3e-6;
  const GpuPeak gpu{312e12, 2.039e12, 108};
  const std::int64_t size = GENERATE(100, 777, 1792, 4096);
  const auto grows = [&](const GemmModel& with, std::int64_t first, std::int64_t end, const auto& next) {
    double last = 0;
    for (std::int64_t k = first; k < end; k = next(k)) {
      const double seconds = bf16(with, square(size, k), gpu);
      CAPTURE(k);
      CHECK(seconds >= last);
      last = seconds;
    }
  };
  const auto quarter_more = [](std::int64_t k) { return k * 5 / 4 + 1; };
  GemmModel whole = model;
  whole.split_cost = 1;  // one second: never chosen
  grows(whole, 16, 20000, quarter_more);
  // At s x 64 the product may be split in s parts, up to 64, and gain by it; never in between, nor above.
  for (std::int64_t parts = 1; parts < 64; ++parts)
    grows(model, 64 * parts, 64 * (parts + 1), [](std::int64_t k) { return k + 7; });
  grows(model, 64 * 64, 20000, quarter_more);
  for (std::int64_t batch = 1; batch < 300; batch += 7) {
    CHECK(bf16(model, {size, 128, 512, batch + 7, false}, gpu) >= bf16(model, {size, 128, 512, batch, false}, gpu));
  }
}

TEST_CASE("gemm: a deep product with few tiles is split along k, at a price", "[oracle][cost]") {
  // 128 x 128 with k = 65536: eight tiles of 64 x 32, on as many of 100 SMs; split in twelve, on 96 of them, each with
  // 171 steps of 32 (65536 / 12 = 5461.3).
  GemmModel model = whole_waves();
  const double per_k = 2.0 * 64 * 32 / 1e12;
  model.split_cost = 2e-6;
  CHECK(bf16(model, {128, 128, 65536}) == Approx(per_k * 171 * 32 + 2e-6).epsilon(1e-6));
  model.split_cost = 1;  // one second: never chosen
  CHECK(bf16(model, {128, 128, 65536}) == Approx(per_k * 65536).epsilon(1e-6));
}

TEST_CASE("gemm: a tile cannot be faster than the latency of its steps", "[oracle][cost]") {
  // 64 x 32 with k = 6400 is one tile: 2 x 64 x 32 x 64 FLOPs at 1e12 FLOP/s are 0.26 us, below 1 us for each 64 of k.
  GemmModel model = whole_waves();
  model.split_cost = 1;
  model.tile_latency = 1e-6;
  CHECK(bf16(model, {64, 32, 6400}) == Approx(100e-6).epsilon(1e-6));
  // Tiles of 256 x 128 take 4.2 us for as much.
  GemmModel large = one_tile_size();
  const double without = bf16(large, {2560, 1280, 4096});
  large.tile_latency = 1e-6;
  CHECK(bf16(large, {2560, 1280, 4096}) == without);
}

TEST_CASE("gemm: a library with a list of kernels takes the one that its rows select", "[oracle][cost]") {
  // Up to 64 rows a tile of 64 x 64; from there on 128 x 128 in pairs along m. Neither is the fastest for 65 rows.
  GemmModel model = whole_waves();
  model.tiles = {{64, 64, 64, 1, 0}, {0, 128, 128, 2, 0}};
  const double small = 2.0 * 64 * 64 * 4096 / 1e12;
  const double large = 2.0 * 128 * 128 * 4096 / 1e12;
  CHECK(bf16(model, {64, 6400, 4096}) == Approx(small).epsilon(1e-6));  // 100 tiles on 100 SMs
  CHECK(bf16(model, {64, 6401, 4096}) == Approx(2 * small).epsilon(1e-6));
  CHECK(bf16(model, {65, 6400, 4096}) == Approx(large).epsilon(1e-6));  // 2 x 50: the second of a pair is idle
  CHECK(bf16(model, {256, 6400, 4096}) == Approx(large).epsilon(1e-6));
  CHECK(bf16(model, {257, 6400, 4096}) == Approx(2 * large).epsilon(1e-6));
  // k is not split, however deep: one tile takes all of it. 2 us for each 64 of k are then the tile's own least time.
  CHECK(bf16(model, {64, 64, 65536}) == Approx(16 * small).epsilon(1e-6));
  model.tiles[0].latency = 2e-6;
  CHECK(bf16(model, {64, 64, 65536}) == Approx(1024 * 2e-6).epsilon(1e-6));
}

TEST_CASE("gemm: with listed kernels, more than 128 rows take longer if not a multiple of 16", "[oracle][cost]") {
  GemmModel model = whole_waves();
  model.tiles = {{0, 128, 128}};
  const double whole = bf16(model, {256, 1024, 4096});
  const double few = bf16(model, {100, 1024, 4096});
  model.ragged_factor = 1.25;
  CHECK(bf16(model, {256, 1024, 4096}) == whole);
  CHECK(bf16(model, {240, 1024, 4096}) == whole);
  CHECK(bf16(model, {241, 1024, 4096}) == Approx(1.25 * whole).epsilon(1e-6));
  CHECK(bf16(model, {100, 1024, 4096}) == few);
}

TEST_CASE("gemm: a library that does not split k leaves SMs idle", "[oracle][cost]") {
  GemmModel model = whole_waves();
  model.splits = false;
  // Eight tiles of 64 x 32 on 100 SMs, each with all of k.
  CHECK(bf16(model, {128, 128, 65536}) == Approx(2.0 * 64 * 32 * 65536 / 1e12).epsilon(1e-6));
  model.splits = true;
  CHECK(bf16(model, {128, 128, 65536}) < 2.0 * 64 * 32 * 65536 / 1e12 / 10);
}

TEST_CASE("gemm: bytes of the result have a weight", "[oracle][cost]") {
  GemmModel model = whole_waves();
  const GpuPeak slow{1e18, 1e9, 1};
  model.result_weight = 1.5;
  CHECK(bf16(model, {1024, 2048, 64}, slow) == Approx((2.0 * 64 * (1024 + 2048) + 1.5 * 2 * 1024 * 2048) / 1e9));
}

TEST_CASE("gemm: thin operands run at the memory's rate", "[oracle][cost]") {
  // m = 1: the n x k weights are read once, 2 bytes each. Enough tiles to use every SM's share of the bandwidth.
  GemmModel model = whole_waves();
  model.memory_efficiency = 0.5;
  const GpuPeak gpu{989.4e12, 3.35e12, 132};
  const double weights = 2.0 * 65536 * 8192;
  const double seconds = bf16(model, {1, 65536, 8192}, gpu);
  CHECK(seconds >= weights / (0.5 * 3.35e12));
  CHECK(seconds < 1.02 * weights / (0.5 * 3.35e12));
}

TEST_CASE("gemm: long kernels lose clock to the power limit above the knee only", "[oracle][cost]") {
  GemmModel model = whole_waves();
  model.power_knee = 2.0 * 2560 * 1280 * 4096;
  model.power_exponent = 0.1;
  CHECK(bf16(model, {2560, 1280, 4096}) == bf16(whole_waves(), {2560, 1280, 4096}));
  // 16 times the knee: the rate falls to 16^-0.1.
  CHECK(bf16(model, {2560, 1280, 16 * 4096}) ==
        Approx(bf16(whole_waves(), {2560, 1280, 16 * 4096}) * std::pow(16, 0.1)).epsilon(1e-6));
}

TEST_CASE("gemm: an fp32 accumulator is read and written", "[oracle][cost]") {
  GemmModel model = whole_waves();
  const GpuPeak slow{1e18, 1e9, 1};  // only bytes count
  const GemmShape plain{1024, 1024, 64};
  GemmShape accumulating = plain;
  accumulating.accumulate_fp32 = true;
  const double operands = 2.0 * 2 * 1024 * 64;
  CHECK(bf16(model, plain, slow) == Approx((operands + 2.0 * 1024 * 1024) / 1e9));
  CHECK(bf16(model, accumulating, slow) == Approx((operands + 8.0 * 1024 * 1024) / 1e9));
}
