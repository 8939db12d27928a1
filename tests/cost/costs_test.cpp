#include "sim/cost/costs.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "sim/cost/attention.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

Profile small_profile() {
  Profile profile;
  profile.name = "small";
  profile.kind = "fitted";
  profile.sms = 100;
  profile.peak_flops = {{Precision::bf16, 100e12}, {Precision::fp8, 200e12}};
  profile.memory_bandwidth = 1e12;
  const GemmModel gemm{.efficiency = 1, .wgrad_factor = 1.5, .fit = {"a test", 100, 0.08}};
  profile.gemm[Precision::bf16] = gemm;
  profile.memory_bound[{OperatorKind::norm, Pass::forward}] = {1e-6, 0.5, {"a test", 10, 0.1}};
  profile.memory_bound[{OperatorKind::copy, Pass::forward}] = {0, 0.8, {"specification", 0, 0.2}};
  return profile;
}

Operator gemm(std::int64_t m, Pass pass = Pass::forward, Precision precision = Precision::bf16) {
  return {OperatorKind::gemm, pass, precision, "fc1", GemmShape{m, 1280, 4096}};
}

Operator elementwise(OperatorKind kind, Bytes traffic, Pass pass = Pass::forward) {
  return {kind, pass, Precision::bf16, "x", ElementwiseShape{0, traffic}};
}

}  // namespace

TEST_CASE("costs: a fitted model is interpolation, a specification is analytic, both with their spread", "[cost]") {
  const Costs costs(small_profile());
  const OperatorCost fitted = costs.of(gemm(2560));
  CHECK(fitted.provenance == Provenance::interpolated);
  CHECK(fitted.spread == Approx(0.08 * std::sqrt(3.14159265 / 2)).epsilon(1e-3));
  const OperatorCost specified = costs.of(elementwise(OperatorKind::residual, 1_MiB));
  CHECK(specified.provenance == Provenance::analytic);
  CHECK(specified.spread > fitted.spread);
}

TEST_CASE("costs: beside a collective a multiplication takes waves of tiles longer, at most as long again", "[cost]") {
  Profile profile = small_profile();
  CHECK(Costs(profile).of(gemm(25600)).beside_collectives == 0);
  profile.gemm_extra_waves = 1.5;
  const Costs costs(profile);
  // 100 x 10 tiles of 256 x 128 on 100 SMs: 10 waves.
  CHECK(costs.of(gemm(25600)).beside_collectives == Approx(0.15));
  CHECK(costs.of(gemm(25600, Pass::wgrad, Precision::fp8)).beside_collectives == Approx(0.15));
  CHECK(costs.of(gemm(2560)).beside_collectives == 1);  // one wave
  CHECK(costs.of(gemm(256)).beside_collectives == 1);
  CHECK(costs.of(elementwise(OperatorKind::norm, 1_MiB)).beside_collectives == 0);
}

TEST_CASE("costs: a group of one multiplication is a plain one", "[cost]") {
  Profile profile = small_profile();
  profile.grouped_gemm = profile.gemm.at(Precision::bf16);
  profile.grouped_gemm.efficiency = 0.5;
  profile.in_training.gemm = 1.25;  // grouped ones have a factor of their own
  const Costs costs(profile);
  const auto grouped = [](std::int64_t experts) {
    return Operator{OperatorKind::grouped_gemm, Pass::forward, Precision::bf16, "expert_fc1",
                    GemmShape{2560, 1280, 4096, experts}};
  };
  CHECK(costs.of(grouped(1)).duration == costs.of(gemm(2560)).duration);
  CHECK(costs.of(grouped(2)).duration > 3 * costs.of(gemm(2560)).duration);
}

TEST_CASE("costs: a measured shape is what was measured", "[cost]") {
  Profile profile = small_profile();
  profile.measured = {{gemm(2560), 1e-3, 0.01, 50}};
  profile.in_training.gemm = 1.25;
  const OperatorCost cost = Costs(profile).of(gemm(2560));
  CHECK(cost.duration == from_seconds(1.25e-3));
  CHECK(cost.spread == Approx(0.01));
  CHECK(cost.provenance == Provenance::measured);
}

TEST_CASE("costs: a neighbour's measurement scales the model", "[cost]") {
  const double modelled = seconds(Costs(small_profile()).of(gemm(2560)).duration);
  Profile profile = small_profile();
  profile.measured = {{gemm(2560), 1.1 * modelled, 0.01, 50}};
  const OperatorCost near = Costs(profile).of(gemm(2816));
  CHECK(seconds(near.duration) == Approx(1.1 * seconds(Costs(small_profile()).of(gemm(2816)).duration)));
  CHECK(near.provenance == Provenance::interpolated);
  CHECK(near.spread < 0.08);
  // Far away the model stands alone.
  CHECK(Costs(profile).of(gemm(256)).duration == Costs(small_profile()).of(gemm(256)).duration);
}

TEST_CASE("costs: every class of operator has its factor in training", "[cost]") {
  Profile profile = small_profile();
  const Costs isolated(profile);
  profile.in_training = {.gemm = 2,
                         .gemm_fp8 = 3,
                         .gemm_fp8_block = 3.5,
                         .gemm_fp4 = 4,
                         .weight_gradient = 5,
                         .attention = 6,
                         .scores = 7,
                         .softmax = 8,
                         .memory = 9,
                         .fit = {}};
  const Costs training(profile);
  const auto factor = [&](const Operator& op) {
    return seconds(training.of(op).duration) / seconds(isolated.of(op).duration);
  };
  CHECK(factor(gemm(2560)) == Approx(2));
  CHECK(factor(gemm(2560, Pass::dgrad)) == Approx(2));
  CHECK(factor(gemm(2560, Pass::wgrad)) == Approx(10));
  CHECK(factor(gemm(2560, Pass::forward, Precision::fp8)) == Approx(3));
  CHECK(factor(gemm(2560, Pass::forward, Precision::mxfp8)) == Approx(3));
  CHECK(factor(gemm(2560, Pass::forward, Precision::fp8_block)) == Approx(3.5));
  // Without a rate of its own: at that of bf16, and with its factor.
  CHECK(factor(gemm(2560, Pass::forward, Precision::nvfp4)) == Approx(2));
  profile.peak_flops[Precision::nvfp4] = 400e12;
  Profile alone = small_profile();
  alone.peak_flops[Precision::nvfp4] = 400e12;
  const Operator four_bits = gemm(2560, Pass::forward, Precision::nvfp4);
  CHECK(seconds(Costs(profile).of(four_bits).duration) / seconds(Costs(alone).of(four_bits).duration) == Approx(4));
  const Operator attention{OperatorKind::attention, Pass::forward, Precision::bf16, "",
                           AttentionShape{1, 4096, 4096, 8, 8, 128, 128, true, 0}};
  CHECK(factor(attention) == Approx(6));
  CHECK(factor({OperatorKind::scores, Pass::forward, Precision::bf16, "qk", GemmShape{2048, 2048, 128, 96, false}}) ==
        Approx(7));
  CHECK(factor(elementwise(OperatorKind::softmax, 1_GiB)) == Approx(8));
  CHECK(factor(elementwise(OperatorKind::norm, 1_GiB)) == Approx(9));
  CHECK(factor(elementwise(OperatorKind::optimizer, 1_GiB, Pass::optimizer)) == Approx(1));
}

TEST_CASE("costs: in training multiplications of every length run at the sustained clock", "[oracle][cost]") {
  Profile profile = small_profile();
  const auto ratio = [&](std::int64_t m) {
    Profile limited = profile;
    GemmModel& model = limited.gemm.at(Precision::bf16);
    model.power_knee = 1e11;
    model.power_exponent = 0.1;
    model.t0 = profile.gemm.at(Precision::bf16).t0 = 0;
    return seconds(Costs(limited).of(gemm(m)).duration) / seconds(Costs(profile).of(gemm(m)).duration);
  };
  const double alone = ratio(1 << 20);
  CHECK(ratio(1 << 14) < 0.8 * alone);  // alone, 64 times as long costs 64^0.1 of the clock
  profile.in_training.gemm = 1.2;
  const double sustained = std::pow(2.0 * 8192 * 8192 * 8192 / 1e11, 0.1);
  CHECK(ratio(1 << 14) == Approx(sustained).epsilon(0.02));
  CHECK(ratio(1 << 20) == Approx(sustained).epsilon(0.02));
}

TEST_CASE("costs: in training attention of every length runs at the sustained clock", "[oracle][cost]") {
  Profile profile = small_profile();
  profile.attention = {{"flash", 128, false, 0, 0.5, 0, 0.5, 0, {"made", 1, 0.1}}};
  const auto ratio = [&](std::int64_t length) {
    const Operator op{OperatorKind::attention, Pass::forward, Precision::bf16, "",
                      AttentionShape{8, length, length, 32, 32, 128, 128, false, 0}};
    Profile limited = profile;
    limited.attention.front().power_knee = 1e11;
    limited.attention.front().power_exponent = 0.1;
    return seconds(Costs(limited).of(op).duration) / seconds(Costs(profile).of(op).duration);
  };
  CHECK(ratio(32768) == Approx(ratio(8192) * std::pow(16, 0.1)).epsilon(1e-3));  // alone
  profile.in_training.attention = 1.2;
  const double sustained = std::pow(2.0 * 8192 * 8192 * 8192 / 1e11, 0.1);
  CHECK(ratio(8192) == Approx(sustained).epsilon(1e-3));
  CHECK(ratio(32768) == Approx(sustained).epsilon(1e-3));
}

TEST_CASE("costs: memory-bound work is t0 and traffic at its kind's efficiency", "[oracle][cost]") {
  const Costs costs(small_profile());
  // 1e9 bytes at 0.5 TB/s, and 1 us.
  CHECK(costs.of(elementwise(OperatorKind::norm, Bytes{1'000'000'000})).duration == 2_ms + 1_us);
  // Without a backward model the forward one; without any that of copies.
  CHECK(costs.of(elementwise(OperatorKind::norm, Bytes{1'000'000'000}, Pass::backward)).duration == 2_ms + 1_us);
  CHECK(costs.of(elementwise(OperatorKind::rope, Bytes{1'000'000'000})).duration == 1250_us);
}

TEST_CASE("costs: work of several kernels has the fixed time of each", "[oracle][cost]") {
  const Costs costs(small_profile());
  Operator casts = elementwise(OperatorKind::norm, Bytes{1'000'000'000});
  std::get<ElementwiseShape>(casts.shape).kernels = 5;
  CHECK(costs.of(casts).duration == 2_ms + 5 * 1_us);
}

TEST_CASE("costs: fp8 without parameters borrows 16-bit ones at the fp8 peak", "[cost]") {
  Profile profile = small_profile();
  profile.memory_bandwidth = 1e18;
  const Costs costs(profile);
  const double half = seconds(costs.of(gemm(25600, Pass::forward, Precision::fp8)).duration);
  CHECK(half == Approx(seconds(costs.of(gemm(25600)).duration) / 2).epsilon(1e-6));
  CHECK(costs.of(gemm(25600, Pass::forward, Precision::fp16)).duration == costs.of(gemm(25600)).duration);
}

TEST_CASE("costs: weight gradients and unaligned operands cost their factor", "[cost]") {
  Profile profile = small_profile();
  profile.gemm[Precision::bf16].unaligned_factor = 4;
  const Costs costs(profile);
  CHECK(seconds(costs.of(gemm(2560, Pass::wgrad)).duration) == Approx(1.5 * seconds(costs.of(gemm(2560)).duration)));
  const auto scores = [](std::int64_t head_dim) {
    return Operator{OperatorKind::scores, Pass::forward, Precision::fp16, "qk",
                    GemmShape{2048, 2048, head_dim, 16, false}};
  };
  // Head size 108 is no multiple of 8 (BLOOM's study); 112 is, and does more work in less time.
  CHECK(seconds(costs.of(scores(108)).duration) > 3.5 * seconds(costs.of(scores(112)).duration));
}

TEST_CASE("costs: between two head sizes attention takes a time between theirs", "[cost]") {
  Profile profile = small_profile();
  AttentionModel model{.kernel = "fa2", .head_dim = 128};
  model.forward_efficiency = model.backward_efficiency = 0.77;
  profile.attention.push_back(model);
  model.head_dim = 64;
  model.forward_efficiency = model.backward_efficiency = 0.41;  // as on L40S
  profile.attention.push_back(model);
  const auto time = [&](std::int64_t head_dim) {
    const AttentionShape shape{4, 4096, 4096, 32, 32, head_dim, head_dim, true, 0};
    return seconds(Costs(profile).of({OperatorKind::attention, Pass::forward, Precision::bf16, "", shape}).duration);
  };
  double before = 0;
  for (std::int64_t head_dim = 48; head_dim <= 192; head_dim += 4) {
    CAPTURE(head_dim);
    CHECK(time(head_dim) >= before);
    before = time(head_dim);
  }
  // Halfway in powers of two: the geometric mean.
  CHECK(time(90) == Approx(std::sqrt(time(64) * time(128))).epsilon(0.01));
}

TEST_CASE("costs: fused attention runs on the kernel that is asked for, else on the profile's first", "[cost]") {
  Profile profile = small_profile();
  AttentionModel model{.kernel = "fa3", .head_dim = 128};
  model.forward_efficiency = model.backward_efficiency = 0.6;
  profile.attention.push_back(model);
  model.kernel = "fa2";
  model.forward_efficiency = model.backward_efficiency = 0.3;
  profile.attention.push_back(model);
  CHECK(attention_kernels(profile) == std::vector<std::string>{"fa3", "fa2"});
  const Operator op{OperatorKind::attention, Pass::forward, Precision::bf16, "",
                    AttentionShape{4, 4096, 4096, 32, 32, 128, 128, true, 0}};
  const double fa3 = seconds(Costs(profile).of(op).duration);
  CHECK(seconds(Costs(profile, "fa2").of(op).duration) == Approx(2 * fa3).epsilon(1e-6));
  CHECK(Costs(profile, "fa3").of(op).duration == Costs(profile).of(op).duration);
  // Backward takes 2.5 times the FLOPs at the same rate; fp8 training keeps attention in 16 bit.
  Operator backward = op;
  backward.pass = Pass::backward;
  backward.precision = Precision::fp8;
  CHECK(seconds(Costs(profile).of(backward).duration) == Approx(2.5 * fa3).epsilon(1e-6));
}
