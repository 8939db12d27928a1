#include "sim/forecast/change.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace tracecast {
namespace {

MovedPart& part_named(std::vector<MovedPart>& parts, const std::string& name) {
  const auto found = std::ranges::find(parts, name, &MovedPart::name);
  if (found != parts.end()) return *found;
  return parts.emplace_back(MovedPart{name, 0, 0});
}

}  // namespace

std::vector<StepPart> step_parts(const Forecast& f) {
  std::vector<StepPart> parts;
  for (const auto& [kind, time_s] : f.compute_s) parts.push_back({spaced(kind), time_s});
  for (std::size_t kind = 0; kind < kTrafficKinds; ++kind)
    parts.push_back({fmt::format("exposed {}", spaced(to_string(static_cast<Traffic>(kind)))), f.exposed_s[kind]});
  parts.push_back({"pipeline bubble", f.bubble_fraction * f.step_time_s});
  parts.push_back({"optimizer", f.optimizer_s});
  parts.push_back({"host", f.host_s});
  return parts;
}

std::vector<MovedPart> moved_parts(const Forecast& before, const Forecast& after) {
  std::vector<MovedPart> parts;
  for (const StepPart& part : step_parts(before)) part_named(parts, part.name).before_s = part.time_s;
  for (const StepPart& part : step_parts(after)) part_named(parts, part.name).after_s = part.time_s;
  std::ranges::stable_sort(parts, std::greater{}, [](const MovedPart& part) { return std::abs(part.by_s()); });
  return parts;
}

Range3 for_million_tokens(const Range3& per_gpu_hour, const Forecast& f) {
  const double tokens_per_s = f.packed ? f.packed->useful_tokens_per_s : f.tokens_per_s;
  return per_gpu_hour * (f.ranks * 1e6 / tokens_per_s / kSecondsPerHour);
}

}  // namespace tracecast
