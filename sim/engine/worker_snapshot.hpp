/// \file
/// Worker: the state of a run as numbers, which are equal where it goes on in the same way (steady_state.hpp).
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/steady_state.hpp"
#include "sim/engine/worker.hpp"

namespace tracecast::engine {

/// Writes the numbers of a state.
class StateWriter {
 public:
  explicit StateWriter(std::int64_t instant) : instant_(instant) {}

  void put(std::int64_t number) { numbers_.push_back(number); }
  /// Before a list: no two states have the same numbers.
  template <class List>
  void put_size(const List& list) {
    put(static_cast<std::int64_t>(list.size()));
  }
  /// A time; 0: it was never set.
  void put_time(std::int64_t time) { put(time == 0 ? kNever : time - instant_); }
  /// A time that only matters while it has not passed.
  void put_if_ahead(std::int64_t time) { put(std::max<std::int64_t>(0, time - instant_)); }
  void put(const Speeds& speeds) {
    put(speeds.compute_bound);
    put(speeds.memory_bound);
    put(speeds.unexpected);
  }
  void put(const Interval& interval) {
    put(interval.arrival);
    put(interval.start);
    put(interval.end);
    put(interval.traffic);
  }
  void put(const EventRef& ref) {
    put(ref.base);
    put(ref.stride);
  }
  void put(const RunTimes& times) {
    put(times.length.total);
    put(times.length.busy);
    put_size(times.records);
    for (const RecordedEvent& each : times.records) {
      put(each.event);
      put(each.times);
    }
    put_size(times.streams);
    for (const StreamUse& each : times.streams)
      for (const std::int64_t number : {std::int64_t{each.stream}, each.first, each.last}) put(number);
    put_size(times.exposures);
    for (const Exposure& each : times.exposures) {
      put(static_cast<std::int64_t>(each.traffic));
      put(each.time);
    }
    put_size(times.beyond);
    for (const MovingTransfer& each : times.beyond) {
      put(each.start);
      put(each.end);
      put(each.speeds);
      put(each.stream);
    }
    put(times.last);
  }
  std::int64_t instant() const { return instant_; }
  std::vector<std::int64_t> take() { return std::move(numbers_); }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
  std::int64_t instant_;
  std::vector<std::int64_t> numbers_;
};

/// Of a time before the instant.
inline constexpr std::int64_t kPassed = -1;

/// False for a stream that has finished, or waits for what comes after the steady state. A stream whose operations are fused into
/// runs of compute has finished, too, but has its time.
inline bool repeats_now(const RepeatedItems& own, const StreamState& s) { return *s.items >= 0 && *s.items < own.last; }

template <class Recorder>
inline const RepeatedItems& Worker<Recorder>::repeated(std::int32_t rank) const {
  const std::int32_t program = state_.compiled.program_of[static_cast<std::size_t>(rank)];
  return steady_->repetition.programs[static_cast<std::size_t>(program)];
}

/// The first and the last item that a rank's streams, or its host, are at; nothing before all of them have come to items that
/// repeat, and when compute has left these. Streams that wait for what comes after are left out.
template <class Recorder>
inline std::optional<std::pair<std::int32_t, std::int32_t>> Worker<Recorder>::items_at(std::int32_t rank) const {
  const RepeatedItems& own = repeated(rank);
  const RankState& r = state_.ranks[static_cast<std::size_t>(rank)];
  std::int32_t lowest = own.last;
  std::int32_t highest = own.first;
  const auto at = [&](std::int32_t item) {
    if (item < 0 || item >= own.last) return;
    lowest = std::min(lowest, item);
    highest = std::max(highest, item);
  };
  const std::size_t first = static_cast<std::size_t>(rank) * state_.stream_count;
  for (std::size_t lane = 0; lane < state_.stream_count; ++lane) at(*state_.streams[first + lane].items);
  const auto block = static_cast<std::size_t>(r.known_issue_blocks) - 1;
  if (own.issue_blocks > 0 && block < r.program->syncs.size()) at(r.program->syncs[block]);
  const std::int32_t computed = *state_.streams[first + kComputeStream].items;
  if (lowest < own.first || computed < 0 || computed >= own.last) return std::nullopt;
  return std::pair(lowest, highest);
}

/// The state of the run; nothing unless all ranks repeat.
template <class Recorder>
inline std::optional<SteadySnapshot> Worker<Recorder>::describe(std::int64_t instant, std::int32_t periods) const {
  SteadySnapshot snapshot{.periods = periods, .instant = instant};
  snapshot.lowest = state_.graph.microbatches;
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(state_.ranks.size()); ++rank) {
    const auto items = items_at(rank);
    if (!items) return std::nullopt;
    const RepeatedItems& own = repeated(rank);
    snapshot.lowest = std::min(snapshot.lowest, own.lowest[static_cast<std::size_t>(items->first)]);
    snapshot.highest = std::max(snapshot.highest, own.highest[static_cast<std::size_t>(items->second)]);
  }
  const std::int32_t microbatches = periods * steady_->repetition.microbatches;
  StateWriter out(instant);
  out.put(snapshot.lowest - microbatches);
  out.put(snapshot.highest - microbatches);
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(state_.ranks.size()); ++rank) {
    describe_streams(rank, periods, out);
    describe_events(rank, periods, snapshot, out);
    describe_compute(rank, out);
  }
  for (std::size_t i = 0; i < state_.rendezvous.size(); ++i) {
    const Rendezvous& each = state_.rendezvous[i];
    if (each.arrived == 0 && state_.ready_for_lockstep[i] == 0) continue;
    for (const std::int64_t number :
         {static_cast<std::int64_t>(i), std::int64_t{each.arrived}, std::int64_t{each.latest_stream},
          std::int64_t{each.waiters.first}, std::int64_t{state_.ready_for_lockstep[i]}})
      out.put(number);
    out.put_time(each.latest);
  }
  describe_transfers(microbatches, out);
  snapshot.state = out.take();
  snapshot.breakdowns = state_.breakdowns;
  snapshot.executed = executed_;
  return snapshot;
}

template <class Recorder>
inline void Worker<Recorder>::describe_streams(std::int32_t rank, std::int32_t periods, StateWriter& out) const {
  const RepeatedItems& own = repeated(rank);
  const RankState& r = state_.ranks[static_cast<std::size_t>(rank)];
  const auto streams = static_cast<std::int32_t>(state_.stream_count);
  for (std::int32_t lane = 0; lane < streams; ++lane) {
    const StreamState& s = state_.streams[static_cast<std::size_t>(rank * streams + lane)];
    out.put(s.next_op);
    out.put(s.next);
    out.put(s.waits_for_compute | s.waits_in_lockstep << 1 | s.leaves_lockstep << 2);
    const bool repeats = repeats_now(own, s);
    out.put(repeats ? *s.items - periods * own.period : *s.items);
    out.put(std::max<std::int64_t>(kPassed, s.clock - out.instant()));
    if (!repeats && s.clock < out.instant()) continue;
    for (const std::int64_t time : {s.clock, s.arrival, s.waited_from, s.waited_to}) out.put_time(time);
  }
  out.put(r.known_issue_blocks - periods * own.issue_blocks);
  out.put(r.host_waiters.first);
  out.put(r.host_next);
  if (own.issue_blocks > 0)
    for (std::int32_t block = r.items[items_at(rank)->first].issue_block; block < r.known_issue_blocks; ++block)
      out.put_time(r.issue_block_starts[block]);
  const Interval& last = state_.breakdowns[static_cast<std::size_t>(rank)].last_transfer();
  out.put_if_ahead(last.end);
  if (last.end <= out.instant()) return;
  out.put_time(last.arrival);
  out.put_time(last.start);
  out.put(last.traffic);
}

template <class Recorder>
inline void Worker<Recorder>::describe_events(std::int32_t rank, std::int32_t periods, const SteadySnapshot& snapshot,
                                              StateWriter& out) const {
  const RankState& r = state_.ranks[static_cast<std::size_t>(rank)];
  const std::int32_t before = periods * repeated(rank).period;
  const auto put = [&](std::int64_t number, const Event& e) {
    out.put(number);
    out.put(e.waiters.first);
    out.put(e.recorded());
    if (!e.recorded() || e.end <= out.instant()) return;
    out.put_time(e.arrival);
    out.put_time(e.start);
    out.put_time(e.end);
    out.put(e.interval().traffic);
  };
  for (const std::int32_t first : steady_->events)
    for (std::int32_t microbatch = snapshot.lowest; microbatch <= snapshot.highest; ++microbatch) {
      const Event& e = r.events[first + microbatch];
      if (e.recorded() || e.waiters.first != 0) put(first + microbatch - snapshot.lowest, e);
    }
  for (const std::int32_t index : steady_->fixed_events) put(index, r.events[index]);
  const std::int32_t lowest = items_at(rank)->first;
  for (std::int32_t i = 0; i < kLocalRing * state_.graph.local_events; ++i) {
    const Event& e = r.local_events[i];
    const bool waits = e.waiters.first != 0;
    if (!waits && (!e.recorded() || e.item() < lowest)) continue;
    out.put(e.recorded() ? e.item() - before : -1);
    put(i % state_.graph.local_events, e);
  }
  const std::int32_t slots = slots_of_messages();
  for (std::int32_t slot = 0; slot < slots; ++slot)
    for (std::int32_t microbatch = snapshot.lowest; microbatch <= snapshot.highest; ++microbatch) {
      const PendingMessage& each = r.messages[slot * state_.graph.microbatches + microbatch];
      if (each.first == 0 && each.sender == 0) continue;
      out.put(slot);
      out.put(microbatch - snapshot.lowest);
      out.put(each.first);
      out.put(each.sender);
      out.put_if_ahead(each.start);
      out.put_if_ahead(each.end);
    }
}

template <class Recorder>
inline std::int32_t Worker<Recorder>::slots_of_messages() const {
  return static_cast<std::int32_t>(state_.messages.size() / state_.ranks.size() /
                                   static_cast<std::size_t>(state_.graph.microbatches));
}

template <class Recorder>
inline void Worker<Recorder>::describe_compute(std::int32_t rank, StateWriter& out) const {
  const RankContention& own = contention_->ranks[static_cast<std::size_t>(rank)];
  out.put_size(own.moving.all());
  for (const MovingTransfer& each : own.moving.all()) {
    out.put_time(each.start);
    each.end == kUnknownEnd ? out.put(kUnknownEnd) : out.put_time(each.end);
    out.put_time(each.earliest_end);
    out.put(each.speeds);
    out.put(each.stream);
  }
  const PendingRun& run = own.pending;
  out.put(run.active);
  if (!run.active) return;
  out.put_time(run.ready);
  out.put_time(run.next);
  out.put(run.length.total);
  out.put(run.length.busy);
  out.put(run.released);
  out.put(run.outdated);
  run.changed == kUnknownEnd ? out.put(kUnknownEnd) : out.put_time(run.changed);
  out.put(run.times != nullptr);
  if (run.times == nullptr) return;
  out.put(*run.times);
}

/// A transfer is known by the stream that waits in it first.
template <class Recorder>
inline void Worker<Recorder>::describe_transfers(std::int32_t microbatches, StateWriter& out) const {
  std::vector<std::pair<std::int64_t, std::int32_t>> pending = contention_->queue.entries();
  std::sort(pending.begin(), pending.end());
  out.put_size(pending);
  for (const auto& [time, rank] : pending) {
    out.put_time(time);
    out.put(rank);
  }
  if (sharing_ == nullptr) return;
  std::vector<TransferProgress> moving = sharing_->network.in_flight();
  const auto of = [&](const TransferProgress& each) -> const InFlightTransfer& { return in_flight_.of(each.transfer); };
  std::sort(moving.begin(), moving.end(), [&](const TransferProgress& a, const TransferProgress& b) {
    return of(a).waiters.first < of(b).waiters.first;
  });
  for (const TransferProgress& each : moving) {
    out.put(of(each).waiters.first);
    out.put(of(each).message == nullptr ? -1 : of(each).message - state_.messages.data() - microbatches);
    out.put_time(of(each).start);
    out.put(each.kind);
    out.put(each.moving);
    out.put(each.solved);
    out.put(static_cast<std::int64_t>(each.residual >> 64));
    out.put(static_cast<std::int64_t>(each.residual));
    out.put(each.rate);
    each.moving ? out.put_time(each.since) : out.put(0);
    out.put_time(each.next);
  }
}

}  // namespace tracecast::engine
