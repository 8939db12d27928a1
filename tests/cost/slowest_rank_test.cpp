#include "sim/cost/slowest_rank.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("slowest rank: everything a rank does itself slows with the size of the job", "[oracle][cost]") {
  const auto slowed = [](int ranks, const char* kind = "fitted") {
    Profile profile;
    profile.kind = kind;
    profile.in_training.gemm = 1.2;
    profile.in_training.memory = 1.5;
    profile.host.launch = 1e-4;
    wait_for_slowest(profile, ranks, kGpuSpread);
    return profile;
  };
  CHECK(slowed(64).in_training.gemm == Approx(1.2));  // the factors are of such jobs
  // 2 % x (sqrt(2 ln 16384) - sqrt(2 ln 64)) = 2 % x (4.4055 - 2.8841)
  CHECK(slowed(16'384).in_training.gemm == Approx(1.2 * 1.030428).epsilon(1e-5));
  CHECK(slowed(16'384).in_training.memory == Approx(1.5 * 1.030428).epsilon(1e-5));
  CHECK(slowed(16'384).host.launch == Approx(1e-4 * 1.030428).epsilon(1e-5));
  CHECK(slowed(1).in_training.gemm == Approx(1.2 * (1 - 0.02 * 2.8841)).epsilon(1e-5));
  CHECK(slowed(16'384, "recorded").in_training.gemm == 1.2);  // measured on this very GPU
}
