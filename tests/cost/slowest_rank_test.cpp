#include "sim/cost/slowest_rank.hpp"

#include <catch2/catch.hpp>

#include "sim/cost/costs.hpp"

using namespace tracecast;

namespace {

Profile fitted_gpu() {
  Profile profile;
  profile.kind = "fitted";
  profile.in_training.gemm = 1.2;
  profile.host.launch = 1e-4;
  return profile;
}

/// As `tracecast profile` leaves it: kernels of one GPU, collectives of all at hand.
Profile recorded_gpu(int gpus) {
  Profile profile = fitted_gpu();
  profile.kind = "recorded";
  profile.measured.emplace_back();
  if (gpus > 1) profile.measured_collectives.emplace_back().ranks = gpus;
  return profile;
}

double slower(Profile profile, int ranks, double spread = kGpuSpread) {
  wait_for_slowest(profile, ranks, spread);
  return profile.in_training.slowest_gpu;
}

}  // namespace

// z(N), the quantile of the normal distribution at (N - 3/8) / (N + 1/4), from a table: z(1) = 0, z(8) = 1.43420,
// z(64) = 2.33669, z(16384) = 3.95576.
TEST_CASE("slowest rank: kernels and host slow with the size of the job", "[oracle][cost]") {
  CHECK(slower(fitted_gpu(), 64) == 1);  // the factors are of such jobs
  CHECK(slower(fitted_gpu(), 16'384) == Approx(1 + 0.02 * (3.95576 - 2.33669)).epsilon(1e-5));
  CHECK(slower(fitted_gpu(), 8) == Approx(1 + 0.02 * (1.4342 - 2.33669)).epsilon(1e-5));
  CHECK(slower(fitted_gpu(), 1) == Approx(1 - 0.02 * 2.33669).epsilon(1e-5));
  // without a spread every job runs at the pace of the mean GPU, whatever its size
  CHECK(slower(fitted_gpu(), 16'384, 0) == Approx(1 - 0.02 * 2.33669).epsilon(1e-5));
  Profile profile = fitted_gpu();
  wait_for_slowest(profile, 16'384, kGpuSpread);
  CHECK(profile.in_training.gemm == 1.2);  // the profile's own factors stay what they are
  CHECK(profile.host.launch == 1e-4 * profile.in_training.slowest_gpu);
  wait_for_slowest(profile, 8, kGpuSpread);  // of another job: in place of the first
  CHECK(profile.in_training.slowest_gpu == slower(fitted_gpu(), 8));
  CHECK(profile.host.launch == Approx(1e-4 * profile.in_training.slowest_gpu));
  wait_for_slowest(profile, 8, 0);
  CHECK(profile.host.launch == Approx(1e-4 * (1 - 0.02 * 2.33669)));
}

TEST_CASE("slowest rank: a profile has the delay of 64 GPUs, or of those that it was recorded on", "[cost]") {
  CHECK(gpus_of_factors(fitted_gpu()) == 64);
  CHECK(gpus_of_factors(recorded_gpu(1)) == 1);
  CHECK(gpus_of_factors(recorded_gpu(8)) == 8);
}

TEST_CASE("slowest rank: a larger spread never makes a job faster", "[property][cost]") {
  const int ranks = GENERATE(1, 2, 8, 32, 63, 64, 1024, 16'384);
  for (const Profile& profile : {fitted_gpu(), recorded_gpu(1), recorded_gpu(8)})
    for (double spread = 0; spread < 0.19; spread += 0.01) {
      INFO(profile.kind << ", " << ranks << " GPUs, spread " << spread);
      CHECK(slower(profile, ranks, spread + 0.01) >= slower(profile, ranks, spread));
    }
}

TEST_CASE("slowest rank: a recorded GPU is one of those at hand, and more of them are slower", "[oracle][cost]") {
  CHECK(slower(recorded_gpu(1), 1) == 1);
  CHECK(slower(recorded_gpu(1), 8) == Approx(1 + 0.02 * 1.43420).epsilon(1e-5));
  CHECK(slower(recorded_gpu(8), 8) == 1);
  CHECK(slower(recorded_gpu(8), 1) == 1);  // never faster than it was measured
  CHECK(slower(recorded_gpu(8), 16'384) == Approx(1 + 0.02 * (3.95576 - 1.43420)).epsilon(1e-5));
  // nccl-tests put into a fitted profile: its kernels are still those of the fit
  Profile collectives = recorded_gpu(8);
  collectives.measured.clear();
  CHECK(slower(collectives, 64) == 1);
  // ranks on CPUs share one machine
  Profile cpu = recorded_gpu(1);
  cpu.overlap = false;
  CHECK(slower(cpu, 64) == 1);
}

TEST_CASE("slowest rank: every kernel takes as much longer, the optimizer's traffic does not", "[cost]") {
  Profile profile = fitted_gpu();
  profile.sms = 100;
  profile.memory_bandwidth = 1e12;
  profile.peak_flops[Precision::bf16] = 1e14;
  Profile slow = profile;
  wait_for_slowest(slow, 16'384, kGpuSpread);
  const auto ratio = [&](const Operator& op) {
    return seconds(Costs(slow).of(op).duration) / seconds(Costs(profile).of(op).duration);
  };
  const double expected = slow.in_training.slowest_gpu;
  Operator gemm, traffic;
  gemm.shape = GemmShape{4096, 4096, 4096};
  traffic.kind = OperatorKind::norm;
  traffic.shape = ElementwiseShape{1 << 28, Bytes{1 << 30}};
  CHECK(ratio(gemm) == Approx(expected).epsilon(1e-6));
  CHECK(ratio(traffic) == Approx(expected).epsilon(1e-6));
  traffic.kind = OperatorKind::optimizer;
  CHECK(ratio(traffic) == 1);
}
