#include "sim/forecast/other_speeds.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tracecast {
namespace {

/// [range] which of the speeds that occur its ranks have, numbered by first use; 0: the usual one.
std::vector<std::ptrdiff_t> speeds_of(const Perturbation& perturbation) {
  std::vector<std::int32_t> known{kNoSlowdown};
  std::vector<std::ptrdiff_t> speeds;
  for (const Perturbation::SlowRanks& slow : perturbation.slow_ranks) {
    const std::int32_t slowdown = slowdown_of({.slow_ranks = {slow}, .gpus = {}}, slow.ranks.last);
    const auto found = std::ranges::find(known, slowdown);
    speeds.push_back(found - known.begin());
    if (found == known.end()) known.push_back(slowdown);
  }
  return speeds;
}

}  // namespace

bool slow_alike(const Perturbation& a, const Perturbation& b) {
  return a.speed_spread == 0 && b.speed_spread == 0 && a.gpus == b.gpus &&
         std::ranges::equal(a.slow_ranks, b.slow_ranks, {}, &Perturbation::SlowRanks::ranks,
                            &Perturbation::SlowRanks::ranks) &&
         speeds_of(a) == speeds_of(b);
}

}  // namespace tracecast
