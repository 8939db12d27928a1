#include "sim/engine/fused_runs.hpp"

#include <utility>

#include "sim/base/result.hpp"

namespace tracecast::engine {
void FusedRunWriter::add(RunPart part, std::span<const std::int32_t> waits) {
  part.first_wait = static_cast<std::int32_t>(out_.waits.size());
  part.wait_count = static_cast<std::int32_t>(waits.size());
  out_.waits.insert(out_.waits.end(), waits.begin(), waits.end());
  out_.parts.push_back(part);
}

RunPart FusedRunWriter::take() {
  TRACECAST_ASSERT(count() == 1, "a run of several parts is finished, not taken");
  const RunPart part = out_.parts.back();
  out_.parts.pop_back();
  return part;
}

std::int32_t FusedRunWriter::finish() {
  FusedRun run;
  run.parts = {first_part_, count()};
  out_.max_parts = std::max(out_.max_parts, count());
  time_isolated(run);
  out_.all.push_back(run);
  return static_cast<std::int32_t>(out_.all.size()) - 1;
}

/// Executes the run from 0 on. The host has issued everything, and the rank-local streams are free.
void FusedRunWriter::time_isolated(FusedRun& run) {
  const auto size = [](const auto& all) { return static_cast<std::int32_t>(all.size()); };
  run.records.first = size(out_.records);
  run.streams.first = size(out_.streams);
  run.exposures.first = size(out_.exposures);
  run.host_slack = kDistantPast;
  run.last.end = kDistantPast;
  std::vector<std::pair<StreamId, std::int64_t>> clocks{{kComputeStream, 0}};
  const auto clock_of = [&](StreamId stream) -> std::int64_t& {
    for (auto& [known, clock] : clocks)
      if (known == stream) return clock;
    return clocks.emplace_back(stream, kDistantPast).second;
  };
  const auto record = [&](const RunPart& part, const Interval& times) {
    if (!part.records.none()) out_.records.push_back({part.records, times});
  };
  const auto computed = [&](const RunPart& part, std::int64_t clock, const Interval& times, const Interval* cause) {
    run.busy += part.total;
    run.host_slack = std::max(run.host_slack, part.issued - times.end);
    run.length = times.end;
    record(part, times);
    if (cause == nullptr) return;
    TRACECAST_ASSERT(cause->traffic >= 0, "compute runs in order and waits for transfers only");
    out_.exposures.push_back({static_cast<Traffic>(cause->traffic), times.start - clock});
  };
  const auto transferred = [&](const RunPart& part, const Interval& times) {
    run.host_slack = std::max(run.host_slack, part.issued - times.arrival);
    const auto used = std::find_if(out_.streams.begin() + run.streams.first, out_.streams.end(),
                                   [&](const StreamUse& use) { return use.stream == part.stream; });
    if (used != out_.streams.end())
      used->last = times.end;
    else
      out_.streams.push_back({part.stream, times.arrival, times.end});
    if (ends_later(times, run.last)) run.last = times;
    record(part, times);
  };
  std::vector<Interval> done(static_cast<std::size_t>(run.parts.count));
  const auto end_of = [](const RunPart& part, std::int64_t ready) {
    return end_at_full_speed(part, ready, kDistantPast);
  };
  execute_parts(out_, run, kDistantPast, done, PartCalls{clock_of, end_of, computed, transferred});
  run.records.count = size(out_.records) - run.records.first;
  run.streams.count = size(out_.streams) - run.streams.first;
  run.exposures.count = size(out_.exposures) - run.exposures.first;
}

}  // namespace tracecast::engine
