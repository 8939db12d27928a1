/// \file
/// Worker: compute beside transfers that slow it (contention.hpp).
#pragma once

#include "sim/engine/worker.hpp"
#include "sim/engine/worker_compute.hpp"

namespace tracecast::engine {

/// Advances from one instant to the next at which a run of compute makes a record or ends, or a transfer on shared links
/// ends. All streams have been executed as far as they can before; so whatever is still unknown happens at that instant
/// or later.
template <class Recorder>
inline void Worker<Recorder>::run_in_order_of_time() {
  PendingQueue& queue = contention_->queue;
  Duration now;
  std::int64_t instant = 0;
  std::vector<std::int32_t> ended;
  while (true) {
    run_ahead();
    if (gave_up_) return;
    if (steady_ != nullptr) skip_periods(instant);
    const Duration limit = queue.empty() ? kLongestSharing : Duration{queue.front()};
    if (sharing_ != nullptr && sharing_->network.advance(now, ended, limit)) {
      instant = now.picoseconds;
      complete_transfers(ended, instant);
    } else if (queue.empty()) {
      return;
    } else {
      instant = limit.picoseconds;
      continue_runs(instant);
    }
  }
}

/// Continues the pending runs that make a record at `time`. There may be thousands, each with its data elsewhere in memory:
/// it is fetched in advance.
template <class Recorder>
inline void Worker<Recorder>::continue_runs(std::int64_t time) {
  constexpr std::size_t kAhead = 8;
  PendingQueue& queue = contention_->queue;
  due_.clear();
  while (!queue.empty() && queue.front() == time) due_.push_back(queue.pop());
  for (std::size_t i = 0; i < due_.size(); ++i) {
    if (i + kAhead < due_.size()) {
      const auto rank = static_cast<std::size_t>(due_[i + kAhead]);
      __builtin_prefetch(&contention_->ranks[rank]);
      __builtin_prefetch(&contention_->ranks[rank].pending.released);
      __builtin_prefetch(&state_.streams[rank * state_.stream_count + kComputeStream]);
      __builtin_prefetch(&state_.ranks[rank]);
    }
    continue_run(due_[i], time);
    execute_runnable();  // while the data of the rank is in the cache
  }
}

/// Executes streams, and ends runs whose times are known, as far as possible. Other pending runs go into the queue, after
/// everything else: by then their streams may have met those of other ranks.
template <class Recorder>
inline void Worker<Recorder>::run_ahead() {
  std::vector<std::int32_t>& outdated = contention_->outdated;
  std::vector<std::int32_t>& timed = contention_->timed;
  while (!gave_up_) {
    execute_runnable();
    if (!contention_->in_lockstep.empty()) {
      const std::int32_t group = contention_->in_lockstep.back();
      contention_->in_lockstep.pop_back();
      if (!run_in_lockstep(group)) leave_lockstep(group);
      continue;
    }
    const bool any = !outdated.empty();
    if (!any && timed.empty()) return;
    std::vector<std::int32_t>& from = any ? outdated : timed;
    const std::int32_t rank = from.back();
    from.pop_back();
    const PendingRun& run = contention_->of(rank).pending;
    if (!run.active || run.outdated != any) continue;
    const OpContext at = compute_of(rank);
    if (any) time_run(at, op_of(at));
    if (is_quiet(at, contention_->of(rank), run.next))
      continue_run(rank, run.next);
    else if (any)
      timed.push_back(rank);
    else
      contention_->queue.push(run.next, rank);
  }
}

/// True if no collective can start on the rank before its compute makes a record, and none whose end is unknown can end
/// before `until`.
template <class Recorder>
inline bool Worker<Recorder>::is_quiet(const OpContext& at, const RankContention& rank, std::int64_t until) {
  const std::uint64_t lanes = contention_->lane_bits;
  const std::uint64_t waiting = at.rank->lanes_that_wait_for_compute;
  if (lanes != 0 && (waiting & lanes) == lanes) return true;
  const std::int32_t first = at.stream - kComputeStream;
  return std::all_of(contention_->lanes.begin(), contention_->lanes.end(), [&](std::int32_t lane) {
    if ((waiting & lane_bit(lane)) != 0) return true;
    if (const MovingTransfer* const open = rank.moving.open_on(lane)) return open->earliest_end >= until;
    return waits_for_compute(first + lane);
  });
}

/// True if the stream has finished, or its next operation waits for a record of compute of its rank.
template <class Recorder>
inline bool Worker<Recorder>::waits_for_compute(std::int32_t stream, const StreamState& s) {
  if (s.waits_for_compute) return true;
  std::int32_t index = 0;
  const StreamOp* const op = next_op(s, index);
  if (op == nullptr) return true;
  RankState& r = state_.ranks[static_cast<std::size_t>(s.rank)];
  const OpContext at{stream, index, nullptr, &r, r.items + index, 0};
  return waits_for_compute(at, *op);
}

/// The next operation of a stream, and its item; null: it has finished.
template <class Recorder>
inline const StreamOp* Worker<Recorder>::next_op(const StreamState& s, std::int32_t& index) {
  const auto lane = static_cast<std::size_t>(s.lane);
  const RankState& r = state_.ranks[static_cast<std::size_t>(s.rank)];
  for (const std::int32_t* item = s.items; *item >= 0; ++item) {
    const std::int32_t own = r.items[*item].compiled_template;
    const bool current = item == s.items && s.next_op > 0;
    const std::int32_t next = current ? s.next_op - 1 : state_.compiled.first_stream_op(own, lane);
    if (next == state_.compiled.first_stream_op(own, lane + 1)) continue;
    index = *item;
    return &state_.compiled.stream_ops[static_cast<std::size_t>(next)];
  }
  return nullptr;
}

template <class Recorder>
inline bool Worker<Recorder>::waits_for_compute(const OpContext& at, const StreamOp& op) const {
  for (std::int32_t wait = op.first_wait; wait < op.first_wait + op.wait_count; ++wait) {
    if (!recorded_by_compute(wait)) continue;
    const EventRef ref = state_.compiled.waits[static_cast<std::size_t>(wait)];
    if (!State::recorded(at, ref, state_.event(at, ref))) return true;
  }
  return false;
}

// ---- Runs of compute ---------------------------------------------------------------------------------------------------

template <class Recorder>
inline const StreamOp& Worker<Recorder>::op_of(const OpContext& at) const {
  return state_.compiled.stream_ops[static_cast<std::size_t>(at.state->next_op - 1)];
}

template <class Recorder>
inline OpContext Worker<Recorder>::compute_of(std::int32_t rank) {
  return state_.context_of(rank * static_cast<std::int32_t>(state_.stream_count) + kComputeStream);
}

/// The next record that compute makes; null: none before the end of the run.
inline const RecordedEvent* next_record(PendingRun& run) {
  if (run.times == nullptr) return nullptr;
  const std::vector<RecordedEvent>& records = run.times->records;
  for (; run.released < static_cast<std::int32_t>(records.size()); ++run.released) {
    const RecordedEvent& record = records[static_cast<std::size_t>(run.released)];
    if (record.times.traffic < 0) return &record;
  }
  return nullptr;
}

inline void find_next(PendingRun& run) {
  const RecordedEvent* const record = next_record(run);
  run.next = run.ready + (record != nullptr ? record->times.end : run.length.total);
}

/// A run of compute is ready. True: it has ended.
template <class Recorder>
inline bool Worker<Recorder>::begin_run(const OpContext& at, const StreamOp& op, std::int64_t ready,
                                        const Event* decisive) {
  if (decisive != nullptr) breakdown_of(at).add_wait(at.state->clock, ready, decisive->interval());
  recorder_.on_arrival(at, false, decisive);
  RankContention& rank = contention_->of(at.state->rank);
  rank.pending = {};
  rank.pending.ready = ready;
  rank.pending.active = true;
  if (!is_quiet(at, rank, kUnknownEnd)) {
    contention_->mark_outdated(at.state->rank);
    return false;
  }
  time_run(at, op);
  if (!rank.pending.ends_next()) {
    contention_->timed.push_back(at.state->rank);
    return false;
  }
  make_records(at, rank.pending, rank.pending.next);
  end_run(at, op, rank);
  return true;
}

/// Finds the times of the pending run beside the transfers that are known.
template <class Recorder>
inline void Worker<Recorder>::time_run(const OpContext& at, const StreamOp& op) {
  RankContention& rank = contention_->of(at.state->rank);
  PendingRun& run = rank.pending;
  Progress& progress = contention_->progress;
  progress.begin(rank.moving.all());
  const Speeds speeds = progress.speeds_at(run.ready);
  const std::int32_t slowdown = state_.graph.ranks[static_cast<std::size_t>(at.state->rank)].slowdown;
  run.outdated = false;
  if (op.fused_run >= 0) {
    time_fused_run(at, op, speeds, slowdown, rank);
  } else if (state_.compiled.fuses[static_cast<std::size_t>(at.state->rank)] && slowdown != kNoSlowdown) {
    run.length = time_single_run(at, op, run.ready);
    if (run.length.total > run.length.busy) host_decides(at);
  } else {
    const RunDuration alone = duration_of(at, op);
    const std::int64_t end = std::max(run.ready + alone.total, at.host_base + alone.lag);
    if (end > run.ready + alone.total) host_decides(at);
    run.length = {end - run.ready, alone.total};
    if (!speeds.full() || end > progress.until()) run.length = time_single_run(at, op, run.ready);
  }
  find_next(run);
}

/// Operation by operation, beside the transfers of the rank.
template <class Recorder>
inline RunLength Worker<Recorder>::time_single_run(const OpContext& at, const StreamOp& op, std::int64_t ready) {
  return contention_->runs.time(
      op, [&](const Work& work) { return duration_alone(at, work); }, ready, at.host_base, contention_->progress);
}

template <class Recorder>
inline void Worker<Recorder>::time_fused_run(const OpContext& at, const StreamOp& op, const Speeds& speeds,
                                             std::int32_t slowdown, RankContention& rank) {
  PendingRun& run = rank.pending;
  Progress& progress = contention_->progress;
  const std::int64_t changed = std::exchange(run.changed, kUnknownEnd);
  const std::int64_t valid_until = run.times != nullptr && run.times == rank.own.get() ? changed : kDistantPast;
  run.times = slowdown == kNoSlowdown ? &contention_->runs.isolated(op.fused_run, speeds) : nullptr;
  if (run.times == nullptr || run.ready + run.times->length.total > progress.until() ||
      !is_isolated(at, run.times->host_slack, run.times->streams, run.ready)) {
    if (rank.own == nullptr) rank.own = std::make_unique<RunTimes>();
    run.times = rank.own.get();
    contention_->runs.time(
        {op.fused_run, slowdown, run.ready, at.host_base},
        [&](StreamId stream) { return streams_of(at)[stream].clock; }, progress, valid_until, *rank.own);
    if (run.ready < at.host_base + run.times->host_slack) host_decides(at);
  }
  run.length = run.times->length;
}

/// The simulation has reached `time`: the pending run makes its records, and may end.
template <class Recorder>
inline void Worker<Recorder>::continue_run(std::int32_t rank, std::int64_t time) {
  PendingRun& run = contention_->of(rank).pending;
  if (!run.active || run.next != time) return;
  const OpContext at = compute_of(rank);
  make_records(at, run, time);
  if (run.ready + run.length.total > time) {
    find_next(run);
    contention_->timed.push_back(rank);
    return;
  }
  end_run(at, op_of(at), contention_->of(rank));
  ++at.state->next_op;
  runnable_.push_back(at.stream);
}

/// The records that compute makes until `time`.
template <class Recorder>
inline void Worker<Recorder>::make_records(const OpContext& at, PendingRun& run, std::int64_t time) {
  while (const RecordedEvent* const each = next_record(run)) {
    if (run.ready + each->times.end > time) break;
    ++run.released;
    record(at, each->event, after(run.ready, each->times));
  }
}

template <class Recorder>
inline void Worker<Recorder>::end_run(const OpContext& at, const StreamOp& op, RankContention& rank) {
  PendingRun& run = rank.pending;
  run.active = false;
  at.state->clock = run.ready + run.length.total;
  executed_ += op.member_count;
  std::int64_t exposed = 0;
  if (run.times != nullptr) exposed = end_fused_run(at, run, rank.moving);
  breakdown_of(at).add_compute(run.length.busy, run.length.total - run.length.busy - exposed, op.optimizer);
  if (run.times == nullptr) end_single_run(at, op, run, rank.moving);
  contention_->drop_ended(at.state->rank, at.state->clock);
  if (longest_ > 0) check_length(at);
}

/// Gives the step up if what follows the current item takes too long.
template <class Recorder>
inline void Worker<Recorder>::check_length(const OpContext& at) {
  const std::vector<std::int64_t>& left = time_left_[static_cast<std::size_t>(at.state->rank)];
  gave_up_ = gave_up_ || at.state->clock + left[static_cast<std::size_t>(at.item_index) + 1] > longest_;
}

template <class Recorder>
inline void Worker<Recorder>::end_single_run(const OpContext& at, const StreamOp& op, const PendingRun& run,
                                             const MovingTransfers& moving) {
  Progress& progress = contention_->progress;
  progress.begin(moving.all());
  const std::span<const Work> work = contention_->runs.work_of(op);
  recorder_.on_compute(at, op, run.ready, [&](std::size_t member, std::int64_t start) {
    return progress.end_of(start, duration_alone(at, work[member]), work[member].use);
  });
  record(at, op.records, {run.ready, run.ready, at.state->clock, -1});
}

/// The transfers of the run, and their records. Returns how long compute waited for them.
template <class Recorder>
inline std::int64_t Worker<Recorder>::end_fused_run(const OpContext& at, const PendingRun& run,
                                                    MovingTransfers& moving) {
  TimeBreakdown& breakdown = breakdown_of(at);
  std::int64_t exposed = 0;
  for (const Exposure& each : run.times->exposures) {
    breakdown.add_exposed(each.traffic, each.time);
    exposed += each.time;
  }
  for (const StreamUse& use : run.times->streams) streams_of(at)[use.stream].clock = run.ready + use.last;
  if (!run.times->streams.empty()) breakdown.add_transfer(after(run.ready, run.times->last));
  for (MovingTransfer each : run.times->beyond) {
    each.start += run.ready;
    each.end += run.ready;
    moving.add(each);
  }
  for (const RecordedEvent& each : run.times->records)
    if (each.times.traffic >= 0) record(at, each.event, after(run.ready, each.times));
  return exposed;
}

// ---- Transfers ---------------------------------------------------------------------------------------------------------

/// The speeds that a collective leaves to compute.
template <class Recorder>
inline const Speeds& Worker<Recorder>::beside(const OpContext& at, const StreamOp& op) const {
  return contention_->runs.beside(state_.source(at).ops[static_cast<std::size_t>(op.first_op)].payload);
}

/// A collective begins to move on all ranks whose streams wait in the list; the network decides its end.
template <class Recorder>
inline void Worker<Recorder>::begin_moving(const WaitList& waiters, std::int64_t start, std::int32_t kind) {
  if (contention_ == nullptr) return;
  const std::int64_t earliest_end = start + sharing_->network.shortest(kind).picoseconds;
  for (std::int32_t link = waiters.first; link != 0; link = stream_state(link - 1).next) {
    const OpContext at = state_.context_of(link - 1);
    const Speeds& speeds = beside(at, op_of(at));
    if (speeds.full()) continue;
    contention_->of(at.state->rank).moving.add({start, kUnknownEnd, speeds, at.state->lane, earliest_end});
    contention_->change(at.state->rank, start);
  }
}

/// A collective ends on one rank.
template <class Recorder>
inline void Worker<Recorder>::end_moving(const OpContext& at, const StreamOp& op, std::int64_t start,
                                         std::int64_t end) {
  if (contention_ == nullptr || op.type != OpType::collective) return;
  MovingTransfers& moving = contention_->of(at.state->rank).moving;
  if (moving.end_open(at.state->lane, end)) return contention_->change(at.state->rank, end);
  const Speeds& speeds = beside(at, op);
  if (speeds.full() || end <= start) return;
  moving.add({start, end, speeds, at.state->lane});
  contention_->change(at.state->rank, start);
}

}  // namespace tracecast::engine
