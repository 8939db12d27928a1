#include "sim/graph/perturbation.hpp"

#include <cmath>

#include "sim/base/random.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

std::int32_t slowdown_of(const Perturbation& perturbation, int rank) {
  double factor = 1;
  for (const Perturbation::SlowRanks& slow : perturbation.slow_ranks)
    if (slow.ranks.contains(rank)) factor = slow.factor;
  if (perturbation.speed_spread > 0) {
    RandomStream own(static_cast<std::uint64_t>(perturbation.seed), 0, static_cast<std::uint32_t>(rank));
    factor *= 1 + perturbation.speed_spread * (2 * own.uniform() - 1);
  }
  return static_cast<std::int32_t>(std::llround(factor * kNoSlowdown));
}

int gpu_of(const Perturbation& perturbation, int rank) {
  int gpu = 0;
  for (std::size_t i = 0; i < perturbation.gpus.size(); ++i)
    if (perturbation.gpus[i].ranks.contains(rank)) gpu = static_cast<int>(i) + 1;
  return gpu;
}

}  // namespace tracecast
