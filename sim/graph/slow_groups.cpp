#include "sim/graph/slow_groups.hpp"

#include <algorithm>
#include <vector>

namespace tracecast {
namespace {

/// [rank] the factor of the last range that contains it.
std::vector<double> factors_of(const Perturbation& perturbation, int ranks) {
  std::vector<double> factors(static_cast<std::size_t>(ranks), 1.0);
  for (const Perturbation::SlowRanks& slow : perturbation.slow_ranks)
    std::fill(factors.begin() + slow.ranks.first, factors.begin() + slow.ranks.last + 1, slow.factor);
  return factors;
}

}  // namespace

bool groups_slow_ranks(const Perturbation& perturbation, const Parallel& parallel) {
  const auto replica = static_cast<std::size_t>(parallel.tp) * static_cast<std::size_t>(parallel.pp);
  return parallel.tp > 1 && perturbation.speed_spread == 0 &&
         perturbation.slow_ranks.size() * replica > kMostSlowClasses;
}

Perturbation with_slow_groups(const Perturbation& perturbation, const Plan& plan) {
  std::vector<double> factors = factors_of(perturbation, plan.world_size);
  const int stride = plan.grid.stride(Axis::tp);
  for (int rank = 0; rank < plan.world_size; ++rank) {
    if (plan.grid.coordinates(rank)[Axis::tp] != 0) continue;
    const auto of_member = [&](int i) -> double& { return factors[static_cast<std::size_t>(rank + i * stride)]; };
    double slowest = of_member(0);
    for (int i = 1; i < plan.parallel.tp; ++i) slowest = std::max(slowest, of_member(i));
    for (int i = 0; i < plan.parallel.tp; ++i) of_member(i) = slowest;
  }
  Perturbation grouped = perturbation;
  grouped.slow_ranks.clear();
  for (int first = 0, next = 0; first < plan.world_size; first = next) {
    const double factor = factors[static_cast<std::size_t>(first)];
    for (next = first + 1; next < plan.world_size && factors[static_cast<std::size_t>(next)] == factor;) ++next;
    if (factor != 1) grouped.slow_ranks.push_back({{first, next - 1}, factor});
  }
  return grouped;
}

}  // namespace tracecast
