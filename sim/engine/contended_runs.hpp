/// \file
/// The times of runs of compute beside transfers that slow them (gpu_sharing.hpp).
///
/// Beside transfers that leave the same speeds throughout, an isolated fused run (fused_runs.hpp) takes constant times. They
/// are found when they are first needed. Other runs are timed operation by operation, except between two cuts while speeds do
/// not change. A cut is the end of a compute part by which all transfers of the run have ended. What follows depends on the
/// time of the cut only: later collectives wait for compute that has not ended before (TemplatePartition::order). So the
/// times from one cut to another are those of the isolated run, shifted. And when a transfer begins or ends beside the run, its
/// times are found anew only from the last cut before that instant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/progress.hpp"

namespace tracecast::engine {

/// A cut of a run: sums and counts of what comes before it.
struct RunCut {
  std::int32_t part = 0;  ///< the one that follows
  std::int32_t records = 0;
  std::int32_t exposures = 0;
  std::int32_t first_end = 0;  ///< index into RunTimes::stream_ends
  std::int32_t streams = 0;    ///< of RunTimes::streams: those used before
  std::int64_t time = 0;       ///< ps after `ready`
  std::int64_t busy = 0;
  Interval last;  ///< the transfer that ends last
};

/// The times of a fused run; ps after its `ready`.
struct RunTimes {
  RunLength length;
  std::vector<RecordedEvent> records;  ///< those of compute in order of time
  std::vector<StreamUse> streams;
  std::vector<Exposure> exposures;
  std::vector<MovingTransfer> beyond;  ///< transfers that move when compute has ended
  std::int64_t host_slack = kDistantPast;
  Interval last;
  std::vector<RunCut> cuts;               ///< of a run that is not isolated: some of them
  std::vector<std::int64_t> stream_ends;  ///< of each cut: the last ends on `streams`
  bool one_step = false;                  ///< of an isolated run: nothing is seen, and nothing moves, but at its end

  void clear() {
    length = {};
    records.clear();
    streams.clear();
    exposures.clear();
    beyond.clear();
    host_slack = kDistantPast;
    last = {0, 0, kDistantPast, -1};
    cuts.clear();
    stream_ends.clear();
    one_step = false;
  }
  IsolatedTimes all() const { return {length, host_slack, last, streams, exposures, records}; }
};

/// A fused run on a rank.
struct StartedRun {
  std::int32_t fused_run = 0;
  std::int32_t slowdown = kNoSlowdown;
  std::int64_t ready = 0;
  std::int64_t host_base = 0;
};

class ContendedRuns {
 public:
  /// `beside`: [collective] the speeds that it leaves to compute.
  ContendedRuns(const CompiledGraph& compiled, std::vector<Speeds> beside)
      : compiled_(compiled), beside_(std::move(beside)), isolated_(compiled.fused_runs.all.size()) {}

  const Speeds& beside(std::int32_t collective) const { return beside_[static_cast<std::size_t>(collective)]; }

  /// The operations of a run that is not fused.
  std::span<const Work> work_of(const StreamOp& op) const { return work(op.first_work, op.member_count); }

  /// Times a run that is not fused. `duration_of(work)`: of an operation without transfers; `progress`: beside those of the rank.
  template <class DurationOf>
  RunLength time(const StreamOp& op, const DurationOf& duration_of, std::int64_t ready, std::int64_t host_base,
                 Progress& progress) const {
    std::int64_t time = ready;
    std::int64_t busy = 0;
    for (const Work& each : work_of(op)) {
      const std::int64_t start = std::max(time, host_base + each.issue);
      time = progress.end_of(start, duration_of(each), each.use);
      busy += time - start;
    }
    return {time - ready, busy};
  }

  /// Times a fused run that is not isolated, or of a slow rank. `clock_of(stream)`: when a rank-local stream is free.
  /// `valid_until`: the times in `out` are those of the same run until then; kDistantPast: of another run.
  template <class ClockOf>
  void time(const StartedRun& start, ClockOf clock_of, Progress& progress, std::int64_t valid_until, RunTimes& out);

  /// The times of a fused run that is isolated, beside transfers that leave `speeds` throughout.
  const RunTimes& isolated(std::int32_t fused_run, const Speeds& speeds) {
    for (const Isolated& each : isolated_[static_cast<std::size_t>(fused_run)])
      if (each.speeds == speeds) return *each.times;
    return time_isolated(fused_run, speeds);
  }

 private:
  struct Isolated {
    Speeds speeds;
    std::unique_ptr<RunTimes> times;
  };

  std::span<const Work> work(std::int32_t first, std::int32_t count) const {
    return {compiled_.work.data() + first, static_cast<std::size_t>(count)};
  }
  /// A fused run while it is timed.
  struct Timing {
    StartedRun start;
    std::vector<Interval> done;  ///< [part]
    std::vector<std::pair<StreamId, std::int64_t>> clocks;

    std::int64_t time() const { return clocks.front().second; }  ///< of the compute stream
    /// True if all transfers so far have ended.
    bool is_cut() const {
      return std::all_of(clocks.begin(), clocks.end(), [&](const auto& clock) { return clock.second <= time(); });
    }
  };

  const RunTimes& time_isolated(std::int32_t fused_run, const Speeds& speeds);
  void begin(Timing& timing, const StartedRun& start) const;
  template <class ClockOf>
  void execute(const FusedRun& run, std::size_t part, Timing& timing, const ClockOf& clock_of, Progress& progress,
               RunTimes& out) const;
  template <class ClockOf>
  std::size_t skip(std::size_t part, const ClockOf& clock_of, Progress& progress, RunTimes& out);
  void copy(const RunTimes& from, const RunCut& first, const RunCut& last, RunTimes& out);
  std::size_t resume(std::int64_t valid_until, RunTimes& out);
  void add_cut(std::size_t part, const Timing& timing, RunTimes& out) const;
  static void use_stream(StreamId stream, std::int64_t first, std::int64_t last, RunTimes& out);
  static void add_transfer(const RunPart& part, const Interval& times, RunTimes& out);
  template <class ClockOf>
  static std::int64_t& clock(Timing& timing, StreamId stream, const ClockOf& clock_of) {
    for (auto& [known, time] : timing.clocks)
      if (known == stream) return time;
    return timing.clocks.emplace_back(stream, clock_of(stream)).second;
  }

  const CompiledGraph& compiled_;
  std::vector<Speeds> beside_;
  std::vector<std::vector<Isolated>> isolated_;  ///< [fused run]
  Timing timing_;
  Timing isolated_timing_;
  Progress isolated_progress_;
};

template <class ClockOf>
void ContendedRuns::time(const StartedRun& start, ClockOf clock_of, Progress& progress, std::int64_t valid_until,
                         RunTimes& out) {
  const FusedRun& run = compiled_.fused_runs.all[static_cast<std::size_t>(start.fused_run)];
  const std::span<const RunPart> parts = run.parts.of(compiled_.fused_runs.parts);
  begin(timing_, start);
  for (std::size_t part = resume(valid_until, out); part < parts.size();) {
    if (part == 0 || parts[part - 1].computes()) {
      part = skip(part, clock_of, progress, out);
      add_cut(part, timing_, out);
    }
    if (part < parts.size()) execute(run, part++, timing_, clock_of, progress, out);
  }
  std::erase_if(out.beyond, [&](const MovingTransfer& each) { return each.end <= out.length.total; });
}

template <class ClockOf>
void ContendedRuns::execute(const FusedRun& run, std::size_t part, Timing& timing, const ClockOf& clock_of,
                            Progress& progress, RunTimes& out) const {
  const std::int64_t ready = timing.start.ready;
  std::int64_t busy = 0;
  const auto relative = [ready](const Interval& times) {
    return Interval{times.arrival - ready, times.start - ready, times.end - ready, times.traffic};
  };
  const auto end_of = [&](const RunPart& own, std::int64_t time) {
    for (const Work& each : work(own.first_work, own.work_count)) {
      out.host_slack = std::max(out.host_slack, each.issue - (time - ready));
      const std::int64_t start = std::max(time, timing.start.host_base + each.issue);
      time = progress.end_of(start, scale_duration({each.duration}, timing.start.slowdown).picoseconds, each.use);
      busy += time - start;
    }
    return time;
  };
  const auto computed = [&](const RunPart& own, std::int64_t from, const Interval& times, const Interval* cause) {
    out.length.busy += busy;
    out.length.total = times.end - ready;
    if (!own.records.none()) out.records.push_back({own.records, relative(times)});
    if (cause != nullptr) out.exposures.push_back({static_cast<Traffic>(cause->traffic), times.start - from});
  };
  const auto transferred = [&](const RunPart& own, const Interval& times) {
    const Interval after = relative(times);
    out.host_slack = std::max(out.host_slack, own.issued - after.arrival);
    const Speeds& speeds = beside(own.collective);
    if (times.end > times.start && !speeds.full()) {
      progress.add({times.start, times.end, speeds, own.stream});
      out.beyond.push_back({after.start, after.end, speeds, own.stream});
    }
    add_transfer(own, after, out);
  };
  const auto own_clock_of = [&](StreamId stream) -> std::int64_t& { return clock(timing, stream, clock_of); };
  execute_part(compiled_.fused_runs, run, part, timing.start.host_base, timing.done,
               PartCalls{own_clock_of, end_of, computed, transferred});
}

/// Skips the parts from here to the last cut before speeds change, if `part` follows a cut. Returns the part after them.
template <class ClockOf>
std::size_t ContendedRuns::skip(std::size_t part, const ClockOf& clock_of, Progress& progress, RunTimes& out) {
  if (timing_.start.slowdown != kNoSlowdown || !timing_.is_cut()) return part;
  const std::int64_t time = timing_.time();
  const RunTimes& isolated_times = isolated(timing_.start.fused_run, progress.speeds_at(time));
  const auto first =
      std::lower_bound(isolated_times.cuts.begin(), isolated_times.cuts.end(), part,
                       [](const RunCut& cut, std::size_t next) { return static_cast<std::size_t>(cut.part) < next; });
  if (first == isolated_times.cuts.end() || static_cast<std::size_t>(first->part) != part) return part;
  const std::int64_t shift = time - first->time;
  if (shift < timing_.start.host_base + isolated_times.host_slack) return part;
  for (const StreamUse& use : isolated_times.streams)
    if (clock(timing_, use.stream, clock_of) > time) return part;
  const auto last = std::prev(std::partition_point(
      first + 1, isolated_times.cuts.end(), [&](const RunCut& cut) { return cut.time + shift <= progress.until(); }));
  if (last != first) copy(isolated_times, *first, *last, out);
  return static_cast<std::size_t>(last->part);
}

}  // namespace tracecast::engine
