#include "sim/engine/contended_runs.hpp"

#include <algorithm>

namespace tracecast::engine {

RunLength ContendedRuns::time(const StreamOp& op, std::int32_t slowdown, std::int64_t ready, std::int64_t host_base,
                              Progress& progress) const {
  std::int64_t time = ready;
  std::int64_t busy = 0;
  for (const Work& each : work_of(op)) {
    const std::int64_t start = std::max(time, host_base + each.issue);
    time = progress.end_of(start, scale_duration({each.duration}, slowdown).picoseconds, each.bound);
    busy += time - start;
  }
  return {time - ready, busy};
}

void ContendedRuns::add_transfer(const RunPart& part, const Interval& times, RunTimes& out) {
  const auto used = std::find_if(out.streams.begin(), out.streams.end(),
                                 [&](const StreamUse& use) { return use.stream == part.stream; });
  if (used != out.streams.end())
    used->last = times.end;
  else
    out.streams.push_back({part.stream, times.arrival, times.end});
  if (ends_later(times, out.last)) out.last = times;
  if (!part.records.none()) out.records.push_back({part.records, times});
}

/// Executes the run from 0 on. The host has issued everything, and the rank-local streams are free.
const RunTimes& ContendedRuns::isolated(std::int32_t fused_run, const Speeds& speeds) {
  std::vector<Isolated>& known = isolated_[static_cast<std::size_t>(fused_run)];
  for (const Isolated& each : known)
    if (each.speeds == speeds) return *each.times;
  known.push_back({speeds, std::make_unique<RunTimes>()});
  progress_.begin({});
  if (!speeds.full()) progress_.add({kDistantPast, kUnknownEnd, speeds, kComputeStream});
  time(
      compiled_.fused_runs.all[static_cast<std::size_t>(fused_run)], 0, kDistantPast,
      [](StreamId) { return kDistantPast; }, progress_, *known.back().times);
  return *known.back().times;
}

}  // namespace tracecast::engine
