#include "sim/search/factor_hint.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

namespace tracecast {
namespace {

/// The multiple of `factor` with the largest power of two that differs from the batch by at most a quarter; if there is none,
/// the nearest multiple.
std::int64_t batch_with(std::int64_t factor, std::int64_t batch) {
  const auto nearest = [&](std::int64_t unit) { return std::max<std::int64_t>(1, (batch + unit / 2) / unit) * unit; };
  std::int64_t unit = factor;
  while (2 * unit <= batch + batch / 4) unit *= 2;
  for (; unit > factor; unit /= 2)
    if (4 * std::abs(nearest(unit) - batch) <= batch) return nearest(unit);
  return nearest(factor);
}

}  // namespace

std::string factor_hint(int gpus, std::int64_t global_batch) {
  int odd = 1;  // all odd factors of the GPUs
  for (int rest = gpus, factor = 3; factor <= rest; factor += 2)
    for (; rest % factor == 0; rest /= factor) odd *= factor;
  const std::int64_t lacking = odd / std::gcd(std::int64_t{odd}, global_batch);
  if (lacking == 1) return "";
  return fmt::format(
      "{} GPUs have a factor {} that a global batch of {} lacks, so that tensor, pipeline or context "
      "parallelism must have it (--global-batch {} would free it)",
      gpus, lacking, global_batch, batch_with(odd, global_batch));
}

}  // namespace tracecast
