#include "sim/engine/contended_runs.hpp"

#include <algorithm>

namespace tracecast::engine {

void ContendedRuns::use_stream(StreamId stream, std::int64_t first, std::int64_t last, RunTimes& out) {
  const auto used =
      std::find_if(out.streams.begin(), out.streams.end(), [&](const StreamUse& use) { return use.stream == stream; });
  if (used != out.streams.end())
    used->last = last;
  else
    out.streams.push_back({stream, first, last});
}

void ContendedRuns::add_transfer(const RunPart& part, const Interval& times, RunTimes& out) {
  use_stream(part.stream, times.arrival, times.end, out);
  if (ends_later(times, out.last)) out.last = times;
  if (!part.records.none()) out.records.push_back({part.records, times});
}

void ContendedRuns::begin(Timing& timing, const StartedRun& start) const {
  timing.start = start;
  timing.clocks.assign(1, {kComputeStream, start.ready});
  timing.done.resize(static_cast<std::size_t>(compiled_.fused_runs.max_parts));
}

/// Between the cuts `first`, where the run is, and `last`.
void ContendedRuns::copy(const RunTimes& from, const RunCut& first, const RunCut& last, RunTimes& out) {
  const std::int64_t start = timing_.time() - timing_.start.ready;
  const std::int64_t shift = start - first.time;
  out.length = {last.time + shift, out.length.busy + last.busy - first.busy};
  for (std::int32_t i = first.records; i < last.records; ++i) {
    const RecordedEvent& each = from.records[static_cast<std::size_t>(i)];
    out.records.push_back({each.event, after(shift, each.times)});
  }
  out.exposures.insert(out.exposures.end(), from.exposures.begin() + first.exposures,
                       from.exposures.begin() + last.exposures);
  for (std::int32_t i = 0; i < last.streams; ++i) {
    const StreamUse& use = from.streams[static_cast<std::size_t>(i)];
    const std::int64_t end = from.stream_ends[static_cast<std::size_t>(last.first_end + i)];
    if (end <= first.time) continue;  // not used between the cuts
    use_stream(use.stream, end + shift, end + shift, out);
    for (auto& [stream, clock] : timing_.clocks)
      if (stream == use.stream) clock = timing_.start.ready + end + shift;
  }
  if (const Interval end = after(shift, last.last); end.end > start && ends_later(end, out.last)) out.last = end;
  const std::int64_t time = timing_.start.ready + last.time + shift;
  timing_.clocks.front().second = time;
  std::fill(timing_.done.begin() + first.part, timing_.done.begin() + last.part, Interval{time, time, time, -1});
}

/// Goes back to the last cut of the run until `valid_until`. Returns the part after it.
std::size_t ContendedRuns::resume(std::int64_t valid_until, RunTimes& out) {
  const auto after = std::partition_point(out.cuts.begin(), out.cuts.end(), [&](const RunCut& each) {
    return timing_.start.ready + each.time <= valid_until;
  });
  if (after == out.cuts.begin()) {
    out.clear();
    return 0;
  }
  const RunCut cut = *std::prev(after);
  out.length = {cut.time, cut.busy};
  out.records.resize(static_cast<std::size_t>(cut.records));
  out.exposures.resize(static_cast<std::size_t>(cut.exposures));
  out.streams.resize(static_cast<std::size_t>(cut.streams));
  out.beyond.clear();
  out.last = cut.last;
  for (std::int32_t i = 0; i < cut.streams; ++i) {
    StreamUse& use = out.streams[static_cast<std::size_t>(i)];
    use.last = out.stream_ends[static_cast<std::size_t>(cut.first_end + i)];
    timing_.clocks.emplace_back(use.stream, timing_.start.ready + use.last);
  }
  out.cuts.erase(std::prev(after), out.cuts.end());
  out.stream_ends.resize(static_cast<std::size_t>(cut.first_end));
  const std::int64_t time = timing_.start.ready + cut.time;
  timing_.clocks.front().second = time;
  std::fill_n(timing_.done.begin(), cut.part, Interval{time, time, time, -1});
  return static_cast<std::size_t>(cut.part);
}

void ContendedRuns::add_cut(std::size_t part, const Timing& timing, RunTimes& out) const {
  if (!timing.is_cut()) return;
  out.cuts.push_back({static_cast<std::int32_t>(part), static_cast<std::int32_t>(out.records.size()),
                      static_cast<std::int32_t>(out.exposures.size()),
                      static_cast<std::int32_t>(out.stream_ends.size()), static_cast<std::int32_t>(out.streams.size()),
                      timing.time() - timing.start.ready, out.length.busy, out.last});
  for (const StreamUse& use : out.streams) out.stream_ends.push_back(use.last);
}

/// Executes the run from 0 on. The host has issued everything, and the rank-local streams are free.
const RunTimes& ContendedRuns::time_isolated(std::int32_t fused_run, const Speeds& speeds) {
  std::vector<Isolated>& known = isolated_[static_cast<std::size_t>(fused_run)];
  known.push_back({speeds, std::make_unique<RunTimes>()});
  RunTimes& times = *known.back().times;
  times.clear();
  isolated_progress_.begin({});
  if (!speeds.full()) isolated_progress_.add({kDistantPast, kUnknownEnd, speeds, kComputeStream});
  const FusedRun& run = compiled_.fused_runs.all[static_cast<std::size_t>(fused_run)];
  const std::span<const RunPart> parts = run.parts.of(compiled_.fused_runs.parts);
  times.cuts.reserve(parts.size());
  begin(isolated_timing_, {.fused_run = fused_run, .ready = 0, .host_base = kDistantPast});
  const auto distant_past = [](StreamId) { return kDistantPast; };
  for (std::size_t part = 0; part < parts.size(); ++part) {
    if (part == 0 || parts[part - 1].computes()) add_cut(part, isolated_timing_, times);
    execute(run, part, isolated_timing_, distant_past, isolated_progress_, times);
  }
  if (parts.back().computes()) add_cut(parts.size(), isolated_timing_, times);
  std::erase_if(times.beyond, [&](const MovingTransfer& each) { return each.end <= times.length.total; });
  times.one_step =
      times.beyond.empty() && std::all_of(times.records.begin(), times.records.end(), [&](const auto& each) {
        return each.times.traffic >= 0 || each.times.end == times.length.total;
      });
  return times;
}

}  // namespace tracecast::engine
