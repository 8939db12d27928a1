/// \file
/// Worker: groups of ranks that run in lockstep (lockstep.hpp).
#pragma once

#include "sim/engine/worker.hpp"
#include "sim/engine/worker_compute.hpp"
#include "sim/engine/worker_contention.hpp"

namespace tracecast::engine {

/// True if the operation begins a lockstep run of a group that may be in lockstep.
template <class Recorder>
inline bool Worker<Recorder>::begins_lockstep(const OpContext& at, const StreamOp& op) {
  if (op.lockstep_run < 0 || std::exchange(at.state->leaves_lockstep, false)) return false;
  const Lockstep& lockstep = state_.compiled.lockstep;
  const std::int32_t group = at.rank->communicators[lockstep.slot];
  if (group < 0 || lockstep.members[static_cast<std::size_t>(group)] < 2) return false;
  return exchange_ == nullptr || !exchange_->shared(group);
}

/// A member is ready. The last one starts the run, at once or when no stream can go on: what is unknown now may be known then.
template <class Recorder>
inline void Worker<Recorder>::join_lockstep(const OpContext& at, std::int64_t ready) {
  const std::int32_t group = at.rank->communicators[state_.compiled.lockstep.slot];
  at.state->arrival = ready;
  at.state->waits_in_lockstep = true;
  std::int32_t& waiting = state_.ready_for_lockstep[static_cast<std::size_t>(group)];
  if (++waiting < state_.compiled.lockstep.members[static_cast<std::size_t>(group)]) return;
  waiting = 0;
  if (run_in_lockstep(group)) return;
  if (contention_ != nullptr)
    contention_->in_lockstep.push_back(group);
  else
    leave_lockstep(group);
}

/// Each member executes the operations of the run by itself.
template <class Recorder>
inline void Worker<Recorder>::leave_lockstep(std::int32_t group) {
  for (const std::int32_t rank : members_of(group)) leave_lockstep(compute_of(rank));
}

template <class Recorder>
inline void Worker<Recorder>::leave_lockstep(const OpContext& at) {
  at.state->waits_in_lockstep = false;
  at.state->leaves_lockstep = true;
  runnable_.push_back(at.stream);
}

/// In a deadlock the members that are ready go as far as they can by themselves. False: none waits for others.
template <class Recorder>
inline bool Worker<Recorder>::leave_all_lockstep() {
  const std::size_t before = runnable_.size();
  for (std::size_t rank = 0; rank < state_.ranks.size(); ++rank)
    if (owns(static_cast<std::int32_t>(rank)) && state_.streams[rank * state_.stream_count].waits_in_lockstep)
      leave_lockstep(compute_of(static_cast<std::int32_t>(rank)));
  return runnable_.size() > before;
}

/// The times of a run on every member; nothing if the members cannot take it in one step.
template <class Recorder>
inline std::optional<IsolatedTimes> Worker<Recorder>::lockstep_times(std::int32_t group) {
  const OpContext first = compute_of(members_of(group).front());
  const LockstepRun& run = state_.compiled.lockstep_runs[static_cast<std::size_t>(op_of(first).lockstep_run)];
  const std::int64_t ready = first.state->arrival;
  Speeds speeds;
  IsolatedTimes times;
  if (contention_ != nullptr) {
    speeds = contention_->speeds_at(first.state->rank, ready).first;
    const RunTimes& isolated = contention_->runs.isolated(run.fused_run, speeds);
    if (!isolated.one_step) return std::nullopt;
    times = isolated.all();
  } else {
    times = state_.compiled.fused_runs.times_of(run.fused_run);
  }
  for (const std::int32_t rank : members_of(group)) {
    const OpContext at = compute_of(rank);
    if (at.state->arrival != ready || !is_isolated(at, times.host_slack, times.streams, ready) ||
        !transfers_follow(at, run))
      return std::nullopt;
    if (contention_ == nullptr) continue;
    const std::int64_t end = ready + times.length.total;
    const auto [own, until] = contention_->speeds_at(rank, ready);
    if (own != speeds || end > until || !is_quiet(at, contention_->of(rank), end)) return std::nullopt;
  }
  return times;
}

/// True if the next collectives of the lockstep stream are those of the run, and none after them moves beside it.
template <class Recorder>
inline bool Worker<Recorder>::transfers_follow(const OpContext& at, const LockstepRun& run) {
  const auto lane = static_cast<std::size_t>(state_.compiled.lockstep.stream);
  StreamState s = streams_of(at)[lane];
  const std::vector<std::int32_t>& items = at.rank->program->streams[lane];
  if (s.position == static_cast<std::int32_t>(items.size()) ||
      items[static_cast<std::size_t>(s.position)] != at.item_index)
    return false;
  const std::int32_t next =
      s.next_op != 0 ? s.next_op - 1 : state_.compiled.first_stream_op(at.item->compiled_template, lane);
  if (next != run.first_transfer || contention_ == nullptr) return next == run.first_transfer;
  skip_transfers(at, run, s);
  return waits_for_compute(at.stream + state_.compiled.lockstep.stream, s);
}

/// Executes the run of a group whose members are all ready. False: it cannot be one step.
template <class Recorder>
inline bool Worker<Recorder>::run_in_lockstep(std::int32_t group) {
  const std::optional<IsolatedTimes> times = lockstep_times(group);
  if (!times) return false;
  for (const std::int32_t rank : members_of(group)) {
    const OpContext at = compute_of(rank);
    const StreamOp& op = op_of(at);
    const LockstepRun& run = state_.compiled.lockstep_runs[static_cast<std::size_t>(op.lockstep_run)];
    const std::int64_t ready = at.state->arrival;
    const Event* decisive = nullptr;
    for (const EventRef ref : state_.compiled.waits_of(op)) {
      const Event& e = state_.event(at, ref);
      if (e.end == ready && decisive == nullptr) decisive = &e;
    }
    if (ready > at.state->clock) breakdown_of(at).add_wait(at.state->clock, ready, decisive->interval());
    skip_transfers(at, run, streams_of(at)[state_.compiled.lockstep.stream]);
    wake_transfers(at, run);
    execute_fast(at, op, *times, ready);
    if (contention_ != nullptr) contention_->drop_ended(rank, at.state->clock);
    executed_ += run.operations;
    at.state->waits_in_lockstep = false;
    at.state->next_op = run.end + 1;
    runnable_.push_back(at.stream);
  }
  return true;
}

/// `s`, the lockstep stream, continues after the collectives of the run.
template <class Recorder>
inline void Worker<Recorder>::skip_transfers(const OpContext& at, const LockstepRun& run, StreamState& s) const {
  s.next_op = run.end_transfers + 1;
  s.waits_for_compute = false;
  const auto lane = static_cast<std::size_t>(s.lane);
  if (run.end_transfers < state_.compiled.first_stream_op(at.item->compiled_template, lane + 1)) return;
  s.next_op = 0;
  ++s.position;
}

/// Wakes the lockstep stream, which may wait for its first collective in the list of an event that nothing else sees.
template <class Recorder>
inline void Worker<Recorder>::wake_transfers(const OpContext& at, const LockstepRun& run) {
  const StreamOp& first = state_.compiled.stream_ops[static_cast<std::size_t>(run.first_transfer)];
  for (const EventRef ref : state_.compiled.waits_of(first))
    if (Event& e = state_.event(at, ref); e.waiters.first != 0) notify_all(e.waiters);
}

}  // namespace tracecast::engine
