#include "sim/engine/repetition.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tracecast::engine {
namespace {

/// Fewer are simulated faster than they are compared.
constexpr std::int32_t kMinPeriods = 4;

bool repeats(const std::vector<CompiledItem>& items, std::int32_t at, std::int32_t period, std::int32_t microbatches) {
  const CompiledItem& item = items[static_cast<std::size_t>(at)];
  const CompiledItem& next = items[static_cast<std::size_t>(at + period)];
  return next.compiled_template == item.compiled_template && next.microbatch == item.microbatch + microbatches;
}

/// The items around `middle` that repeat with this period.
RepeatedItems extend(const std::vector<CompiledItem>& items, std::int32_t middle, std::int32_t period,
                     std::int32_t microbatches) {
  const auto count = static_cast<std::int32_t>(items.size());
  RepeatedItems found{.first = middle, .last = middle, .period = period};
  while (found.first > 0 && repeats(items, found.first - 1, period, microbatches)) --found.first;
  while (found.last + period < count && repeats(items, found.last, period, microbatches)) ++found.last;
  found.last += period;
  return found;
}

/// The shortest period of the items in the middle that lasts for half of the program. `microbatches`: 0: any number of them.
std::optional<RepeatedItems> find(const std::vector<CompiledItem>& items, std::int32_t& microbatches) {
  const auto count = static_cast<std::int32_t>(items.size());
  const std::int32_t middle = count / 2;
  for (std::int32_t at = middle + 1; at < count && (at - middle) * kMinPeriods < count; ++at) {
    const CompiledItem& item = items[static_cast<std::size_t>(middle)];
    const CompiledItem& next = items[static_cast<std::size_t>(at)];
    const std::int32_t by = next.microbatch - item.microbatch;
    if (next.compiled_template != item.compiled_template || by <= 0 || (microbatches > 0 && by != microbatches))
      continue;
    RepeatedItems found = extend(items, middle, at - middle, by);
    if (found.last - found.first < std::max(count / 2, kMinPeriods * found.period)) continue;
    microbatches = by;
    return found;
  }
  return std::nullopt;
}

/// False: the host does not issue all periods alike.
bool read_host(const std::vector<CompiledItem>& items, RepeatedItems& found) {
  const auto step = [&](std::int32_t at) {
    const CompiledItem& item = items[static_cast<std::size_t>(at)];
    const CompiledItem& next = items[static_cast<std::size_t>(at + found.period)];
    return std::pair(next.issue_block - item.issue_block, next.host_offset - item.host_offset);
  };
  std::tie(found.issue_blocks, found.host_time) = step(found.first);
  for (std::int32_t at = found.first; at + found.period < found.last; ++at)
    if (step(at) != std::pair(found.issue_blocks, found.host_time)) return false;
  return found.issue_blocks == 0 || found.host_time == 0;
}

void read_microbatches(const std::vector<CompiledItem>& items, RepeatedItems& found) {
  const std::size_t count = items.size();
  found.lowest.assign(count, 0);
  found.highest.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i)
    found.highest[i] = std::max(i == 0 ? 0 : found.highest[i - 1], items[i].microbatch);
  const auto last = static_cast<std::size_t>(found.last);
  for (std::size_t i = last; i-- > 0;)
    found.lowest[i] = i + 1 == last ? items[i].microbatch : std::min(found.lowest[i + 1], items[i].microbatch);
}

}  // namespace

std::optional<Repetition> find_repetition(const CompiledGraph& compiled) {
  Repetition repetition;
  for (const CompiledProgram& program : compiled.programs) {
    std::optional<RepeatedItems> found = find(program.items, repetition.microbatches);
    if (!found || !read_host(program.items, *found)) return std::nullopt;
    read_microbatches(program.items, *found);
    repetition.programs.push_back(std::move(*found));
  }
  if (repetition.programs.empty()) return std::nullopt;
  return repetition;
}

}  // namespace tracecast::engine
