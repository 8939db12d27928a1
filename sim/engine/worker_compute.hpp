/// \file
/// Worker: how hosts issue operations, and how streams execute them; fused runs on their fast and slow paths.
#pragma once

#include "sim/engine/worker.hpp"

namespace tracecast::engine {

// ---- Hosts -------------------------------------------------------------------------------------------------------------

/// Lets the host of a rank issue blocks until it waits for an event.
template <class Recorder>
inline void Worker<Recorder>::advance_host(std::int32_t rank_index) {
  RankState& rank = state_.ranks[static_cast<std::size_t>(rank_index)];
  const std::int32_t before = rank.known_issue_blocks;
  while (rank.known_issue_blocks <= static_cast<std::int32_t>(rank.program->syncs.size()))
    if (!finish_issue_block(rank_index, rank)) break;
  if (rank.known_issue_blocks > before) notify_all(rank.host_waiters);
}

/// The host_sync at the end of the last known issue block. False: the host waits for an event that is not recorded yet.
template <class Recorder>
inline bool Worker<Recorder>::finish_issue_block(std::int32_t rank_index, RankState& rank) {
  const std::int32_t block = rank.known_issue_blocks - 1;
  const std::int32_t item_index = rank.program->syncs[static_cast<std::size_t>(block)];
  const CompiledItem& item = rank.items[item_index];
  const OpContext at{kNoStream, item_index, nullptr, &rank, &item, 0};
  const CompiledTemplate& used = state_.compiled.templates[static_cast<std::size_t>(item.compiled_template)];
  std::int64_t end = rank.issue_block_starts[block] + item.host_offset + used.host_total;
  const Event* decisive = nullptr;
  for (const EventRef ref : state_.source(at).ops[static_cast<std::size_t>(used.sync_op)].waits) {
    Event& e = state_.event(at, ref);
    if (!State::recorded(at, ref, e)) {
      enqueue_waiter(e.waiters, static_cast<std::int32_t>(state_.streams.size()) + rank_index);
      return false;
    }
    if (e.end > end) std::tie(end, decisive) = std::pair(e.end, &e);
  }
  rank.issue_block_starts[rank.known_issue_blocks++] = end;
  recorder_.on_host_resume(rank_index, block + 1, decisive);
  return true;
}

// ---- Streams -----------------------------------------------------------------------------------------------------------

/// Executes operations of a stream until it finishes or waits.
template <class Recorder>
inline void Worker<Recorder>::execute_stream(std::int32_t stream) {
  StreamState& s = stream_state(stream);
  RankState& r = state_.ranks[static_cast<std::size_t>(s.rank)];
  const auto lane = static_cast<std::size_t>(s.lane);
  while (!state_.finished(s)) {
    const std::int32_t index = *s.items;
    const CompiledItem& item = r.items[index];
    fetch_after(*s.items);
    fetch_after(item);
    if (item.issue_block >= r.known_issue_blocks) return enqueue_waiter(r.host_waiters, stream);
    const OpContext at{stream, index, &s, &r, &item, r.issue_block_starts[item.issue_block] + item.host_offset};
    if (s.next_op == 0) s.next_op = state_.compiled.first_stream_op(item.compiled_template, lane) + 1;
    const std::int32_t end = state_.compiled.first_stream_op(item.compiled_template, lane + 1);
    for (; s.next_op <= end; ++s.next_op)
      if (!execute(at, state_.compiled.stream_ops[static_cast<std::size_t>(s.next_op - 1)])) return;
    s.next_op = 0;
    ++s.items;
  }
  if (contention_ != nullptr) set_waits_for_compute(s, true);
}

/// Executes one operation if all times that it needs are known. False: the stream waits in the list of the missing time.
template <class Recorder>
inline bool Worker<Recorder>::execute(const OpContext& at, const StreamOp& op) {
  StreamState& s = *at.state;
  if (op.lockstep_run >= 0 && op.type == OpType::collective && waits_in_lockstep(at)) return false;
  std::int64_t ready = s.clock;
  const Event* decisive = nullptr;
  for (std::int32_t wait = op.first_wait; wait < op.first_wait + op.wait_count; ++wait) {
    const EventRef ref = state_.compiled.waits[static_cast<std::size_t>(wait)];
    Event& e = state_.event(at, ref);
    fetch_after(e);
    if (!State::recorded(at, ref, e)) {
      set_waits_for_compute(s, contention_ != nullptr && recorded_by_compute(wait));
      enqueue_waiter(e.waiters, at.stream);
      return false;
    }
    if (e.end > ready) std::tie(ready, decisive) = std::pair(e.end, &e);
  }
  if (op.type == OpType::compute) {
    if (op.lockstep_run >= 0 && waits_in_lockstep(at)) {
      join_lockstep(at, ready);
      return false;
    }
    if (op.lockstep_run >= 0) s.leaves_lockstep = false;
    if (contention_ == nullptr || s.lane != kComputeStream) {
      compute(at, op, ready, decisive);
      return true;
    }
    return begin_run(at, op, ready, decisive);
  }
  const std::int64_t issued = at.host_base + op.issue;
  s.arrival = std::max(ready, issued);
  if (issued > ready) host_decides(at);
  if (op.lockstep_run >= 0) s.leaves_lockstep = false;
  recorder_.on_arrival(at, issued > ready, decisive);
  if (op.type == OpType::collective) return join_collective(at, op);
  return op.type == OpType::send ? send(at, op) : receive(at, op);
}

// ---- Compute -----------------------------------------------------------------------------------------------------------

/// ps of an operation of the compute stream without transfers beside it.
template <class Recorder>
inline std::int64_t Worker<Recorder>::duration_alone(const OpContext& at, const Work& work) const {
  const Rank& rank = state_.graph.ranks[static_cast<std::size_t>(at.state->rank)];
  const bool own = work.row >= 0 && rank.first_batch >= 0;
  const Duration duration =
      own ? state_.graph.varying.of(work.row, rank.first_batch + at.item->microbatch) : Duration{work.duration};
  return scale_duration(duration, rank.slowdown).picoseconds;
}

/// The duration of a run that is not fused, without transfers beside it.
template <class Recorder>
inline RunDuration Worker<Recorder>::duration_of(const OpContext& at, const StreamOp& op) const {
  if (at.rank->first_runs == nullptr || at.state->lane != kComputeStream) return {op.total, op.lag};
  return state_
      .runs[static_cast<std::size_t>(at.rank->first_runs[at.item_index] + at.state->next_op - 1 -
                                     state_.compiled.first_stream_op(at.item->compiled_template, kComputeStream))];
}

template <class Recorder>
inline void Worker<Recorder>::compute(const OpContext& at, const StreamOp& op, std::int64_t ready,
                                      const Event* decisive) {
  if (op.fused_run >= 0) return execute_fused_run(at, op, ready, decisive);
  StreamState& s = *at.state;
  const RunDuration run = duration_of(at, op);
  const std::int64_t end = std::max(ready + run.total, at.host_base + run.lag);
  if (end > ready + run.total) host_decides(at);
  if (s.lane == kComputeStream) {
    TimeBreakdown& breakdown = breakdown_of(at);
    if (decisive != nullptr) breakdown.add_wait(s.clock, ready, decisive->interval());
    breakdown.add_compute(run.total, end - ready - run.total, op.optimizer);
  }
  executed_ += op.member_count;
  recorder_.on_arrival(at, false, decisive);
  recorder_.on_compute(at, op, ready, [&](std::size_t member, std::int64_t start) {
    const Op& source = state_.source(at).ops[static_cast<std::size_t>(state_.compiled.members_of(op)[member])];
    if (at.state->lane != kComputeStream) return start + source.duration.picoseconds;
    const Rank& rank = state_.graph.ranks[static_cast<std::size_t>(at.state->rank)];
    return start + state_.graph.duration_of(rank, source, at.item->microbatch).picoseconds;
  });
  s.clock = end;
  record(at, op.records, {ready, ready, end, -1});
}

template <class Recorder>
inline void Worker<Recorder>::execute_fused_run(const OpContext& at, const StreamOp& op, std::int64_t ready,
                                                const Event* decisive) {
  const FusedRuns& runs = state_.compiled.fused_runs;
  if (decisive != nullptr) breakdown_of(at).add_wait(at.state->clock, ready, decisive->interval());
  executed_ += op.member_count;
  const IsolatedTimes times = runs.times_of(op.fused_run);
  if (is_isolated(at, times.host_slack, times.streams, ready))
    execute_fast(at, op, times, ready);
  else
    execute_by_parts(at, op, runs.all[static_cast<std::size_t>(op.fused_run)], ready);
}

/// True if neither the host nor earlier work of rank-local streams delays anything inside the run (fused_runs.hpp).
template <class Recorder>
inline bool Worker<Recorder>::is_isolated(const OpContext& at, std::int64_t host_slack,
                                          std::span<const StreamUse> streams, std::int64_t ready) {
  if (ready < at.host_base + host_slack) return false;
  for (const StreamUse& use : streams)
    if (streams_of(at)[use.stream].clock > ready + use.first) return false;
  return true;
}

/// An isolated run: adds the constants that were found when it was compiled.
template <class Recorder>
inline void Worker<Recorder>::execute_fast(const OpContext& at, const StreamOp& op, const IsolatedTimes& times,
                                           std::int64_t ready) {
  TimeBreakdown& breakdown = breakdown_of(at);
  std::int64_t exposed = 0;
  for (const Exposure& each : times.exposures) {
    breakdown.add_exposed(each.traffic, each.time);
    exposed += each.time;
  }
  breakdown.add_compute(times.length.busy, times.length.total - times.length.busy - exposed, op.optimizer);
  for (const StreamUse& use : times.streams) streams_of(at)[use.stream].clock = ready + use.last;
  if (!times.streams.empty()) breakdown.add_transfer(after(ready, times.last));
  at.state->clock = ready + times.length.total;
  for (const RecordedEvent& each : times.records) record(at, each.event, after(ready, each.times));
}

template <class Recorder>
inline void Worker<Recorder>::execute_by_parts(const OpContext& at, const StreamOp& op, const FusedRun& run,
                                               std::int64_t ready) {
  TimeBreakdown& breakdown = breakdown_of(at);
  at.state->clock = ready;
  part_times_.resize(static_cast<std::size_t>(state_.compiled.fused_runs.max_parts));
  const PartCalls calls{
      [&](StreamId stream) -> std::int64_t& { return streams_of(at)[stream].clock; },
      [&](const RunPart& part, std::int64_t from) { return end_at_full_speed(part, from, at.host_base); },
      [&](const RunPart& part, std::int64_t clock, const Interval& times, const Interval* cause) {
        if (cause != nullptr) breakdown.add_wait(clock, times.start, *cause);
        breakdown.add_compute(part.total, times.end - times.start - part.total, op.optimizer);
        record(at, part.records, times);
      },
      [&](const RunPart& part, const Interval& times) {
        breakdown.add_transfer(times);
        record(at, part.records, times);
      }};
  execute_parts(state_.compiled.fused_runs, run, at.host_base, part_times_, calls);
}

}  // namespace tracecast::engine
