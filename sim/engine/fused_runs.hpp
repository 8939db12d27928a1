/// \file
/// Fused runs: the work of one rank between two points where it needs other ranks, summed into one operation.
///
/// Compute waits for its tensor-parallel collectives, and these wait for compute. Where all members of the group belong to
/// one class, the representative is the only member in a folded graph: such a collective lasts what the graph says from
/// the moment when it is ready. So the compute stream can run the collectives of that stream itself (local_streams.hpp).
/// Everything from one wait for another event to the next becomes one fused run of parts.
///
/// Times are integers, combined by maxima and sums only. If, when a run begins at `ready`,
///
///   - the host is ahead of every part:           ready >= host base + host_slack
///   - no rank-local stream is busy for longer
///     than the compute before its first
///     collective takes:                          clock <= ready + first,  for each StreamUse
///
/// then the run is isolated: neither term decides any maximum inside, and every time inside is `ready` plus a constant.
/// The constants are found once, when templates are compiled. Otherwise the parts are executed one by one, by the same
/// function. Both paths give, to the picosecond, what separate operations on separate streams give
/// (tests/engine/fused_runs_test.cpp).
///
/// Not used when spans are recorded, which need every operation. The operations of a slow rank are rounded one by one, so it
/// fuses them only where they are timed one by one, beside transfers that slow compute (contended_runs.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/time_breakdown.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast::engine {

/// Earlier than every time of a simulation; sums with it do not overflow.
inline constexpr std::int64_t kDistantPast = INT64_MIN / 4;

/// A run of compute operations, or one collective of a rank-local stream.
struct RunPart {
  StreamId stream = kComputeStream;
  Traffic traffic = Traffic::tensor_parallel;  ///< of a collective
  std::int32_t first_wait = 0;                 ///< index into FusedRuns::waits
  std::int32_t wait_count = 0;
  EventRef records;        ///< an event that operations outside of the run wait for
  std::int64_t total = 0;  ///< ps
  /// ps after the template's beginning on the host: the earliest end of compute, the earliest arrival of a collective.
  std::int64_t issued = 0;
  std::int32_t collective = -1;  ///< index into StepGraph::collectives
  std::int32_t first_work = 0;   ///< of compute: index into CompiledGraph::work
  std::int32_t work_count = 0;
  bool computes() const { return stream == kComputeStream; }
};

/// An event that a fused run records; ps after its `ready`.
struct RecordedEvent {
  EventRef event;
  Interval times;
};

/// ps after `ready`: when the first collective of a rank-local stream arrives, and when the last one ends.
struct StreamUse {
  StreamId stream = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// How long compute waits for collectives of one kind inside the run.
struct Exposure {
  Traffic traffic = Traffic::tensor_parallel;
  std::int64_t time = 0;  ///< ps
};

/// A range of one of the arrays of FusedRuns.
struct Range {
  std::int32_t first = 0;
  std::int32_t count = 0;
  template <class T>
  std::span<const T> of(const std::vector<T>& all) const {
    return {all.data() + first, static_cast<std::size_t>(count)};
  }
};

struct FusedRun {
  Range parts;
  Range records;
  Range streams;
  Range exposures;
  std::int64_t host_slack = 0;  ///< ps
  std::int64_t length = 0;      ///< ps from `ready` to the end of compute
  std::int64_t busy = 0;        ///< ps of compute
  Interval last;                ///< the transfer that ends last; ps after `ready`
};

/// ps from when a run is ready.
struct RunLength {
  std::int64_t total = 0;
  std::int64_t busy = 0;  ///< of it, the time in which operations execute
};

/// The times of an isolated run; ps after `ready`.
struct IsolatedTimes {
  RunLength length;
  std::int64_t host_slack = 0;
  Interval last;  ///< the transfer that ends last
  std::span<const StreamUse> streams;
  std::span<const Exposure> exposures;
  std::span<const RecordedEvent> records;
};

/// All fused runs of a compiled graph.
struct FusedRuns {
  std::vector<FusedRun> all;
  std::vector<RunPart> parts;
  std::vector<std::int32_t> waits;  ///< index of a part within its run
  std::vector<RecordedEvent> records;
  std::vector<StreamUse> streams;
  std::vector<Exposure> exposures;
  std::int32_t max_parts = 0;  ///< of one run

  /// Of an isolated run that no transfer slows.
  IsolatedTimes times_of(std::int32_t fused_run) const {
    const FusedRun& run = all[static_cast<std::size_t>(fused_run)];
    return {{run.length, run.busy},      run.host_slack,         run.last, run.streams.of(streams),
            run.exposures.of(exposures), run.records.of(records)};
  }
};

/// What the parts of a run need from outside and tell it.
///
///   clock_of(stream)                       a reference to the time at which the stream is free, for the compute stream `ready`; it
///                                          is advanced
///   end_of(part, ready)                    the end of compute
///   computed(part, clock, times, cause)    `cause`: the transfer that compute waited for from `clock` on, or null
///   transferred(part, times)
template <class ClockOf, class EndOf, class Computed, class Transferred>
struct PartCalls {
  ClockOf clock_of;
  EndOf end_of;
  Computed computed;
  Transferred transferred;
};
template <class... Each>
PartCalls(Each...) -> PartCalls<Each...>;

/// Executes part `i` of a run after those before it. `done`: the times of the parts so far; receives those of the part.
template <class Calls>
void execute_part(const FusedRuns& runs, const FusedRun& run, std::size_t i, std::int64_t host_base,
                  std::span<Interval> done, const Calls& calls) {
  const RunPart& part = run.parts.of(runs.parts)[i];
  std::int64_t& clock = calls.clock_of(part.stream);
  std::int64_t ready = clock;
  const Interval* cause = nullptr;
  for (const std::int32_t wait : Range{part.first_wait, part.wait_count}.of(runs.waits)) {
    const Interval& other = done[static_cast<std::size_t>(wait)];
    if (other.end <= ready) continue;
    ready = other.end;
    cause = &other;
  }
  if (part.computes()) {
    done[i] = {ready, ready, calls.end_of(part, ready), -1};
    calls.computed(part, clock, done[i], cause);
  } else {
    const std::int64_t arrival = std::max(ready, host_base + part.issued);
    done[i] = {arrival, arrival, arrival + part.total, static_cast<std::int8_t>(part.traffic)};
    calls.transferred(part, done[i]);
  }
  clock = done[i].end;
}

/// Executes all parts of a run in order.   Requires `done` of at least as many elements as the run has parts
template <class Calls>
void execute_parts(const FusedRuns& runs, const FusedRun& run, std::int64_t host_base, std::span<Interval> done,
                   const Calls& calls) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(run.parts.count); ++i)
    execute_part(runs, run, i, host_base, done, calls);
}

/// The end of a compute part without slowdown.
inline std::int64_t end_at_full_speed(const RunPart& part, std::int64_t ready, std::int64_t host_base) {
  return std::max(ready + part.total, host_base + part.issued);
}

/// Writes fused runs part by part, and times each one in isolation.
class FusedRunWriter {
 public:
  explicit FusedRunWriter(FusedRuns& out) : out_(out) {}

  void begin() { first_part_ = static_cast<std::int32_t>(out_.parts.size()); }
  /// Parts of the current run.
  std::int32_t count() const { return static_cast<std::int32_t>(out_.parts.size()) - first_part_; }
  /// `part` without its waits; `waits`: indices of parts of the run.
  void add(RunPart part, std::span<const std::int32_t> waits);
  RunPart& last() { return out_.parts.back(); }
  /// Returns the index of the finished run.   Requires that its first part computes
  std::int32_t finish();
  /// Removes and returns the only part, which needs no fused run.
  RunPart take();

 private:
  void time_isolated(FusedRun& run);

  FusedRuns& out_;
  std::int32_t first_part_ = 0;
};

}  // namespace tracecast::engine
