#include "sim/cost/slowest_rank.hpp"

#include <algorithm>
#include <utility>

#include <boost/math/distributions/normal.hpp>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr int kFittedTo = 64;

/// Standard deviations by which the largest of `count` normal deviates is expected to exceed their mean.
double largest_of(int count) { return quantile(boost::math::normal(), (count - 0.375) / (count + 0.25)); }

/// Collectives of a host are recorded on all GPUs at hand.
int recorded_on(const Profile& profile) {
  int gpus = 1;
  for (const MeasuredCollective& each : profile.measured_collectives)
    if (each.nodes == 1) gpus = std::max(gpus, each.ranks);
  return gpus;
}

bool has_own_kernels(const Profile& profile) { return !profile.measured.empty(); }

double slower(const Profile& profile, int ranks, double spread) {
  const bool cpu = !profile.overlap;
  if (cpu) return 1;
  if (!has_own_kernels(profile)) return 1 + spread * largest_of(ranks) - kGpuSpread * largest_of(kFittedTo);
  return 1 + spread * std::max(0.0, largest_of(ranks) - largest_of(recorded_on(profile)));
}

}  // namespace

int gpus_of_factors(const Profile& profile) { return has_own_kernels(profile) ? recorded_on(profile) : kFittedTo; }

void wait_for_slowest(Profile& profile, int ranks, double spread) {
  TRACECAST_ASSERT(ranks >= 1, "a job has a rank");
  TRACECAST_ASSERT(spread >= 0 && spread <= 0.2, "the fastest GPU takes some time");
  const double before = std::exchange(profile.in_training.slowest_gpu, slower(profile, ranks, spread));
  profile.host.scale_eager(profile.in_training.slowest_gpu / before);
}

}  // namespace tracecast
