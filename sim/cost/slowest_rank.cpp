#include "sim/cost/slowest_rank.hpp"

#include <cmath>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr double kFittedTo = 64;

/// Standard deviations by which the largest of `count` normal deviates exceeds their mean, for many of them.
double largest_of(double count) { return std::sqrt(2 * std::log(count)); }

}  // namespace

void wait_for_slowest(Profile& profile, int ranks, double spread) {
  TRACECAST_ASSERT(ranks >= 1, "a job has a rank");
  TRACECAST_ASSERT(spread >= 0 && spread <= 0.2, "the fastest GPU takes some time");
  if (profile.kind == "recorded") return;
  const double slower = 1 + spread * (largest_of(ranks) - largest_of(kFittedTo));
  InTraining& f = profile.in_training;
  for (double* factor : {&f.gemm, &f.gemm_fp8, &f.gemm_fp8_block, &f.gemm_fp4, &f.attention, &f.scores, &f.softmax,
                         &f.memory, &profile.host.launch})
    *factor *= slower;
}

}  // namespace tracecast
