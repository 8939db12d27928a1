/// \file
/// Differences between ranks besides their coordinates and placement: slow ranks, other GPUs, random spread of speed.
/// Leaves out faults of the network, which are in Cluster::faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/profile.hpp"

namespace tracecast {

/// Ranks `first` to `last`, both included.
struct RankRange {
  int first = 0;
  int last = 0;
  bool contains(int rank) const { return rank >= first && rank <= last; }
  bool operator==(const RankRange&) const = default;
};

struct Perturbation {
  /// Compute operations of these ranks take `factor` times as long. If several ranges contain a rank, the last one
  /// counts.
  struct SlowRanks {
    RankRange ranks;
    double factor = 1;
    bool operator==(const SlowRanks&) const = default;
  };
  /// These ranks have other GPUs than the rest. Their network stays the cluster's.
  struct OtherGpus {
    RankRange ranks;
    std::string name;  ///< of the profile, as the scenario names it
    Profile profile;
    bool operator==(const OtherGpus&) const = default;
  };
  std::vector<SlowRanks> slow_ranks;
  std::vector<OtherGpus> gpus;
  /// Compute of each rank takes a random factor longer, uniform in 1 - spread to 1 + spread, drawn from `seed`.
  double speed_spread = 0;
  std::int64_t seed = 0;

  bool none() const { return slow_ranks.empty() && gpus.empty() && speed_spread == 0; }
  bool operator==(const Perturbation&) const = default;
};

/// Rank::slowdown of a rank: the factor of the last range that contains it, times its random factor.
/// Requires factors from 0.01 to 100
std::int32_t slowdown_of(const Perturbation& perturbation, int rank);
/// Which GPU a rank has: 0 is the cluster's GPU, i + 1 the i-th of `gpus`. The last range that contains the rank
/// counts.
int gpu_of(const Perturbation& perturbation, int rank);

}  // namespace tracecast
