#include "sim/cost/power_limit.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "sim/cost/costs.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

Profile gpu() {
  Profile profile;
  profile.kind = "fitted";
  profile.sms = 100;
  profile.peak_flops = {{Precision::bf16, 100e12}};
  profile.memory_bandwidth = 1e12;
  profile.gemm[Precision::bf16] = {.fit = {"a test", 100, 0.08}};
  profile.memory_bound[{OperatorKind::norm, Pass::forward}] = {1e-6, 0.5, {"a test", 10, 0.1}};
  return profile;
}

Profile limited(Profile profile, double limit) {
  profile.clock = clock_at_power(limit);
  return profile;
}

Operator gemm(std::int64_t m, std::int64_t k) {
  return {OperatorKind::gemm, Pass::forward, Precision::bf16, "fc1", GemmShape{m, 12800, k}};
}

}  // namespace

TEST_CASE("power limit: the clock of the cube law", "[cost][power]") {
  CHECK(clock_at_power(1) == 1);
  CHECK(clock_at_power(0.2 + 0.8 * 0.512) == Approx(0.8));
  // H100 boards of 500 W in place of 700: torchtitan's runs are met with multiplications 1.16 times slower.
  CHECK(1 / clock_at_power(500.0 / 700) == Approx(1.16).epsilon(0.01));
  double before = 0;
  for (int percent = 40; percent <= 100; percent += 5) {
    const double limit = percent / 100.0;
    CHECK(clock_at_power(limit) > before);
    // Less power for each operation of a kernel that computes.
    CHECK(limit / clock_at_power(limit) < 1.0001);
    before = clock_at_power(limit);
  }
}

TEST_CASE("power limit: kernels that compute slow down with the clock, others do not", "[cost][power]") {
  const Costs rated(gpu());
  const Costs slow(limited(gpu(), 0.6));
  const auto slower = [&](const Operator& op) {
    return seconds(slow.of(op).duration) / seconds(rated.of(op).duration);
  };
  CHECK(slower(gemm(12800, 12800)) == Approx(1 / clock_at_power(0.6)).epsilon(1e-3));
  CHECK(slower(gemm(1, 128)) < 1.05);  // limited by memory
  const Operator norm{OperatorKind::norm, Pass::forward, Precision::bf16, "norm", ElementwiseShape{0, 64_MiB}};
  CHECK(slow.of(norm).duration == rated.of(norm).duration);
  CHECK(slow.of(norm).spread == rated.of(norm).spread);
  CHECK(slow.of(gemm(12800, 12800)).spread > rated.of(gemm(12800, 12800)).spread);
}

TEST_CASE("power limit: measured kernels slow down as their model does", "[cost][power]") {
  Profile recorded = gpu();
  recorded.kind = "recorded";
  recorded.measured = {{gemm(12800, 12800), 0.05, 0.01, 20}};
  const Costs rated(recorded);
  const Costs slow(limited(recorded, 0.6));
  CHECK(seconds(rated.of(gemm(12800, 12800)).duration) == Approx(0.05));
  CHECK(seconds(slow.of(gemm(12800, 12800)).duration) == Approx(0.05 / clock_at_power(0.6)).epsilon(1e-3));
  CHECK(slow.of(gemm(12800, 12800)).provenance == Provenance::measured);
  // A neighbour of the measured shape: its correction is that of the rated clock.
  const auto slower = seconds(slow.of(gemm(6400, 12800)).duration) / seconds(rated.of(gemm(6400, 12800)).duration);
  CHECK(slower == Approx(1 / clock_at_power(0.6)).epsilon(1e-3));
}

TEST_CASE("power limit: what a rack leaves its GPUs", "[oracle][cost][power]") {
  // Four DGX H100: 10.2 kW each, of which 5.6 kW are the GPUs'.
  RackPower rack{40'800, 4, 8, 700, 4600};
  CHECK(limit_in_rack(rack) == Approx(1));
  rack.watts = 35'000;  // 8.75 kW each, 4.15 kW for the GPUs
  CHECK(limit_in_rack(rack) == Approx(4150.0 / 5600));
  CHECK(watts_for(rack, 4150.0 / 5600) == Approx(35'000));
  rack.watts = 18'400;
  CHECK(limit_in_rack(rack) == Approx(0).margin(1e-12));
}

TEST_CASE("power limit: factorisations slow down with the clock, as far as they compute", "[cost][power]") {
  Profile rated = gpu();
  rated.peak_flops[Precision::fp32] = 50e12;
  const Operator root{OperatorKind::optimizer, Pass::optimizer, Precision::fp32, "inverse_root",
                      FactorizationShape{4096, 1, 1, true}};
  const double fast = seconds(Costs(rated).of(root).duration);
  const double slow = seconds(Costs(limited(rated, 0.6)).of(root).duration);
  // 20/3 n^3 FLOPs at half the rate, 4/3 n^3 bytes at half the bandwidth, 10 us a column.
  const double n3 = 4096.0 * 4096 * 4096;
  CHECK(fast == Approx(20.0 / 3 * n3 / 25e12 + 4.0 / 3 * n3 / 0.5e12 + 4096 * 10e-6));
  CHECK(slow - fast == Approx(20.0 / 3 * n3 / 25e12 * (1 / clock_at_power(0.6) - 1)));
}
