/// \file
/// Worker: periods of the steady state that are skipped (steady_state.hpp).
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engine/steady_state.hpp"
#include "sim/engine/worker.hpp"
#include "sim/engine/worker_snapshot.hpp"

namespace tracecast::engine {

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
  const std::int64_t longest = kLongestSharing.picoseconds / std::max<std::int64_t>(1, now.instant - before.instant);
  auto times = static_cast<std::int32_t>(
      std::min<std::int64_t>(longest, (state_.graph.microbatches - 1 - now.highest) / microbatches));
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
  for (MovingTransfer& each : compute.moving.all()) {
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
