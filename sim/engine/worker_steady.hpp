/// \file
/// Worker: periods of the steady state that are skipped (steady_state.hpp).
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
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

/// Moves on a time that was set.
inline void move_on(std::int64_t& time, std::int64_t by) {
  if (time != 0) time += by;
}

/// When streams are executed as far as they can: skips periods if the first rank has come to the next one. The state may be that
/// of several periods before, in 1F1B of as many as there are stages: it is compared with one that is kept twice as long each
/// time (Brent's search for cycles). Few numbers tell most states apart.
template <class Recorder>
inline void Worker<Recorder>::skip_periods(std::int64_t& instant) {
  SteadyState& steady = *steady_;
  const std::int32_t item = *state_.streams[kComputeStream].items;
  if (steady.done || (item >= 0 && item < steady.next_item)) return;
  const RepeatedItems& own = repeated(0);
  const std::int32_t periods = (item - own.first) / own.period;
  steady.next_item = own.first + (periods + 1) * own.period;
  steady.done = item < 0 || steady.next_item + own.period >= own.last;
  if (steady.done) return;
  const std::vector<std::int64_t> outline = outline_at(instant, periods);
  std::optional<SteadySnapshot>& before = steady.before;
  if (before && before->outline == outline) {
    const std::optional<SteadySnapshot> now = describe(instant, periods);
    if (now && same_state(*before, *now)) {
      move_on_periods(*before, *now, instant);
      steady.done = true;
      return;
    }
  }
  if (before && periods - before->periods < steady.kept) return;
  if (before) steady.kept *= 2;
  before = describe(instant, periods);
  if (before) before->outline = outline;
  std::fill(steady.host_decided.begin(), steady.host_decided.end(), false);
}

/// Where compute is on all ranks.
template <class Recorder>
inline std::vector<std::int64_t> Worker<Recorder>::outline_at(std::int64_t instant, std::int32_t periods) const {
  std::vector<std::int64_t> outline;
  for (std::size_t rank = 0; rank < state_.ranks.size(); ++rank) {
    const StreamState& s = state_.streams[rank * state_.stream_count + kComputeStream];
    outline.push_back(*s.items - periods * repeated(static_cast<std::int32_t>(rank)).period);
    outline.push_back(s.clock - instant);
  }
  return outline;
}

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
  out.put_size(own.moving);
  for (const MovingTransfer& each : own.moving) {
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
  const RunTimes& times = *run.times;
  out.put(times.length.total);
  out.put(times.length.busy);
  out.put_size(times.records);
  for (const RecordedEvent& each : times.records) {
    out.put(each.event);
    out.put(each.times);
  }
  out.put_size(times.streams);
  for (const StreamUse& each : times.streams)
    for (const std::int64_t number : {std::int64_t{each.stream}, each.first, each.last}) out.put(number);
  out.put_size(times.exposures);
  for (const Exposure& each : times.exposures) {
    out.put(static_cast<std::int64_t>(each.traffic));
    out.put(each.time);
  }
  out.put_size(times.beyond);
  for (const MovingTransfer& each : times.beyond) {
    out.put(each.start);
    out.put(each.end);
    out.put(each.speeds);
    out.put(each.stream);
  }
  out.put(times.last);
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

/// True if the run goes on after `now` as it did after `before`.
template <class Recorder>
inline bool Worker<Recorder>::same_state(const SteadySnapshot& before, const SteadySnapshot& now) const {
  const std::int32_t periods = now.periods - before.periods;
  if (periods <= 0 || before.state != now.state) return false;
  const std::int64_t time = now.instant - before.instant;
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(state_.ranks.size()); ++rank) {
    const RepeatedItems& own = repeated(rank);
    const std::int64_t host = periods * own.host_time;
    const bool decided = steady_->host_decided[static_cast<std::size_t>(rank)];
    if (own.issue_blocks == 0 && (decided ? host != time : host > time)) return false;
  }
  return true;
}

/// How many times the periods between both snapshots fit before something else follows.
template <class Recorder>
inline std::int32_t Worker<Recorder>::periods_left(const SteadySnapshot& before, const SteadySnapshot& now) const {
  const std::int32_t periods = now.periods - before.periods;
  const std::int32_t microbatches = periods * steady_->repetition.microbatches;
  std::int32_t times = (state_.graph.microbatches - 1 - now.highest) / microbatches;
  std::int32_t multiple = 1;  // local events keep their places in the ring
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(state_.ranks.size()); ++rank) {
    const RepeatedItems& own = repeated(rank);
    const std::int32_t items = periods * own.period;
    times = std::min(times, (own.last - own.period - items_at(rank)->second) / items);
    multiple = std::lcm(multiple, kLocalRing / std::gcd(kLocalRing, items));
  }
  return std::max(0, times / multiple * multiple);
}

/// Moves the state on as if the periods between both snapshots had been repeated.
template <class Recorder>
inline void Worker<Recorder>::move_on_periods(const SteadySnapshot& before, const SteadySnapshot& now,
                                              std::int64_t& instant) {
  const std::int32_t times = periods_left(before, now);
  const std::int32_t periods = times * (now.periods - before.periods);
  const std::int32_t microbatches = periods * steady_->repetition.microbatches;
  if (times == 0 || steady_->has_fixed_event(now.lowest, now.highest + microbatches)) return;
  const std::int64_t by = times * (now.instant - before.instant);
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(state_.ranks.size()); ++rank) {
    move_on_events(rank, periods, now, by);
    move_on_rank(rank, periods, now.instant, by);
    state_.breakdowns[static_cast<std::size_t>(rank)].repeat(before.breakdowns[static_cast<std::size_t>(rank)], times,
                                                             now.instant, by);
  }
  for (std::size_t i = 0; i < state_.rendezvous.size(); ++i)
    if (state_.rendezvous[i].arrived > 0) state_.rendezvous[i].latest += by;
  contention_->queue.move_on(by);
  if (sharing_ != nullptr) {
    for (const TransferProgress& each : sharing_->network.in_flight())
      in_flight_.move_on(each.transfer, by, microbatches);
    sharing_->network.move_on({by});
  }
  skipped_ = times * (now.executed - before.executed);
  executed_ += skipped_;
  instant += by;
}

template <class Recorder>
inline void Worker<Recorder>::move_on_rank(std::int32_t rank, std::int32_t periods, std::int64_t instant,
                                           std::int64_t by) {
  const RepeatedItems& own = repeated(rank);
  RankState& r = state_.ranks[static_cast<std::size_t>(rank)];
  const std::int32_t lowest = items_at(rank)->first;
  if (own.issue_blocks > 0) {
    const std::int32_t blocks = periods * own.issue_blocks;
    for (std::int32_t block = r.known_issue_blocks; block-- > r.items[lowest].issue_block;)
      r.issue_block_starts[block + blocks] = r.issue_block_starts[block] + by;
    r.known_issue_blocks += blocks;
  }
  for (std::size_t lane = 0; lane < state_.stream_count; ++lane) {
    StreamState& s = state_.streams[static_cast<std::size_t>(rank) * state_.stream_count + lane];
    const bool repeats = repeats_now(own, s);
    if (repeats || s.clock >= instant)
      for (std::int64_t* time : {&s.clock, &s.arrival, &s.waited_from, &s.waited_to}) move_on(*time, by);
    if (!repeats) continue;
    const std::vector<std::int32_t>& items = r.program->streams[lane];
    const std::int32_t later = *s.items + periods * own.period;
    s.items = &*std::lower_bound(items.begin(), std::prev(items.end()), later);
    TRACECAST_ASSERT(*s.items == later, "programs repeat on each stream");
  }
  RankContention& compute = contention_->of(rank);
  for (MovingTransfer& each : compute.moving) {
    move_on(each.start, by);
    if (each.end != kUnknownEnd) move_on(each.end, by);
    move_on(each.earliest_end, by);
  }
  PendingRun& run = compute.pending;
  move_on(run.ready, by);
  move_on(run.next, by);
  if (run.changed != kUnknownEnd) move_on(run.changed, by);
}

/// Events and messages, the last micro-batch first.
template <class Recorder>
inline void Worker<Recorder>::move_on_events(std::int32_t rank, std::int32_t periods, const SteadySnapshot& now,
                                             std::int64_t by) {
  RankState& r = state_.ranks[static_cast<std::size_t>(rank)];
  const std::int32_t microbatches = periods * steady_->repetition.microbatches;
  const std::int32_t items = periods * repeated(rank).period;
  const auto moved = [&](Event e) {
    if (!e.recorded()) return e;
    e.arrival += by;
    e.start += by;
    e.end += by;
    e.mark += items << 4;
    return e;
  };
  for (const std::int32_t first : steady_->events)
    for (std::int32_t microbatch = now.highest; microbatch >= now.lowest; --microbatch)
      r.events[first + microbatch + microbatches] = moved(r.events[first + microbatch]);
  const std::int32_t lowest = items_at(rank)->first;
  for (std::int32_t i = 0; i < kLocalRing * state_.graph.local_events; ++i)
    if (r.local_events[i].recorded() && r.local_events[i].item() >= lowest)
      r.local_events[i] = moved(r.local_events[i]);
  const std::int32_t slots = slots_of_messages();
  for (std::int32_t slot = 0; slot < slots; ++slot)
    for (std::int32_t microbatch = now.highest; microbatch >= now.lowest; --microbatch) {
      PendingMessage* const message = r.messages + slot * state_.graph.microbatches + microbatch;
      PendingMessage later = *message;
      move_on(later.start, by);
      move_on(later.end, by);
      message[microbatches] = later;
    }
}

}  // namespace tracecast::engine
