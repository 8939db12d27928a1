/// \file
/// The times of runs of compute beside transfers that slow them (gpu_sharing.hpp).
///
/// Beside transfers that leave the same speeds throughout, an isolated fused run (fused_runs.hpp) takes constant times. They
/// are found when they are first needed. Other runs are timed operation by operation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/progress.hpp"

namespace tracecast::engine {

/// ps from when a run is ready.
struct RunLength {
  std::int64_t total = 0;
  std::int64_t busy = 0;  ///< of it, the time in which operations execute
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

  void clear() {
    length = {};
    records.clear();
    streams.clear();
    exposures.clear();
    beyond.clear();
    host_slack = kDistantPast;
    last = {0, 0, kDistantPast, -1};
  }
};

class ContendedRuns {
 public:
  /// `beside`: [collective] the speeds that it leaves to compute.
  ContendedRuns(const CompiledGraph& compiled, std::vector<Speeds> beside)
      : compiled_(compiled), beside_(std::move(beside)), isolated_(compiled.fused_runs.all.size()) {}

  const Speeds& beside(std::int32_t collective) const { return beside_[static_cast<std::size_t>(collective)]; }

  /// The operations of a run that is not fused, on a rank with this slowdown.
  std::span<const Work> work_of(const StreamOp& op) const { return work(op.first_work, op.member_count); }

  /// Times a run that is not fused. `progress`: beside the transfers of the rank.
  RunLength time(const StreamOp& op, std::int32_t slowdown, std::int64_t ready, std::int64_t host_base,
                 Progress& progress) const;

  /// Times a fused run part by part. `clock_of(stream)`: when a rank-local stream is free.
  template <class ClockOf>
  void time(const FusedRun& run, std::int64_t ready, std::int64_t host_base, ClockOf clock_of, Progress& progress,
            RunTimes& out);

  /// The times of a fused run that is isolated, beside transfers that leave `speeds` throughout.
  const RunTimes& isolated(std::int32_t fused_run, const Speeds& speeds);

 private:
  struct Isolated {
    Speeds speeds;
    std::unique_ptr<RunTimes> times;
  };

  std::span<const Work> work(std::int32_t first, std::int32_t count) const {
    return {compiled_.work.data() + first, static_cast<std::size_t>(count)};
  }
  static void add_transfer(const RunPart& part, const Interval& times, RunTimes& out);

  const CompiledGraph& compiled_;
  std::vector<Speeds> beside_;
  std::vector<std::vector<Isolated>> isolated_;  ///< [fused run]
  std::vector<Interval> done_;                   ///< [part] of the run that is timed
  std::vector<std::pair<StreamId, std::int64_t>> clocks_;
  Progress progress_;  ///< of isolated runs
};

template <class ClockOf>
void ContendedRuns::time(const FusedRun& run, std::int64_t ready, std::int64_t host_base, ClockOf clock_of,
                         Progress& progress, RunTimes& out) {
  out.clear();
  clocks_.assign(1, {kComputeStream, ready});
  done_.resize(static_cast<std::size_t>(compiled_.fused_runs.max_parts));
  std::int64_t busy = 0;  // of the current part
  const auto clock = [&](StreamId stream) -> std::int64_t& {
    for (auto& [known, time] : clocks_)
      if (known == stream) return time;
    return clocks_.emplace_back(stream, clock_of(stream)).second;
  };
  const auto relative = [ready](const Interval& times) {
    return Interval{times.arrival - ready, times.start - ready, times.end - ready, times.traffic};
  };
  const auto end_of = [&](const RunPart& part, std::int64_t time) {
    busy = 0;
    for (const Work& each : work(part.first_work, part.work_count)) {
      out.host_slack = std::max(out.host_slack, each.issue - (time - ready));
      const std::int64_t start = std::max(time, host_base + each.issue);
      time = progress.end_of(start, each.duration, each.bound);
      busy += time - start;
    }
    return time;
  };
  const auto computed = [&](const RunPart& part, std::int64_t from, const Interval& times, const Interval* cause) {
    out.length.busy += busy;
    out.length.total = times.end - ready;
    if (!part.records.none()) out.records.push_back({part.records, relative(times)});
    if (cause != nullptr) out.exposures.push_back({static_cast<Traffic>(cause->traffic), times.start - from});
  };
  const auto transferred = [&](const RunPart& part, const Interval& times) {
    const Interval after = relative(times);
    out.host_slack = std::max(out.host_slack, part.issued - after.arrival);
    const Speeds& speeds = beside(part.collective);
    if (times.end > times.start && !speeds.full()) {
      progress.add({times.start, times.end, speeds, part.stream});
      out.beyond.push_back({after.start, after.end, speeds, part.stream});
    }
    add_transfer(part, after, out);
  };
  execute_parts(compiled_.fused_runs, run, host_base, done_, clock, end_of, computed, transferred);
  std::erase_if(out.beyond, [&](const MovingTransfer& each) { return each.end <= out.length.total; });
}

}  // namespace tracecast::engine
