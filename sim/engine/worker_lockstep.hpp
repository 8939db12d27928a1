/// \file
/// Worker: groups of ranks that run in lockstep (lockstep.hpp).
#pragma once

#include "sim/engine/worker.hpp"
#include "sim/engine/worker_compute.hpp"
#include "sim/engine/worker_contention.hpp"

namespace tracecast::engine {

/// At the first operation of a lockstep run on the compute stream or the lockstep stream: true if it is not for this rank alone
/// to execute it. The lockstep stream then waits, in no list, for what its group does.
template <class Recorder>
inline bool Worker<Recorder>::waits_in_lockstep(const OpContext& at) {
  StreamState& s = *at.state;
  if (s.leaves_lockstep) return false;
  const Lockstep& lockstep = state_.compiled.lockstep;
  const std::int32_t group = at.rank->communicators[lockstep.slot];
  if (group < 0 || lockstep.members[static_cast<std::size_t>(group)] < 2) return false;
  if (exchange_ != nullptr && exchange_->shared(group)) return false;
  s.waits_in_lockstep = true;
  set_waits_for_compute(s, s.lane != kComputeStream);
  return true;
}

/// A member is ready. The last one starts the run, at once or when no stream can go on: what is unknown now may be known then.
template <class Recorder>
inline void Worker<Recorder>::join_lockstep(const OpContext& at, std::int64_t ready) {
  const std::int32_t group = at.rank->communicators[state_.compiled.lockstep.slot];
  at.state->arrival = ready;
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
  for (const std::int32_t rank : members_of(group)) leave_lockstep(*compute_of(rank).state);
}

template <class Recorder>
inline void Worker<Recorder>::leave_lockstep(StreamState& compute) {
  StreamState& transfers = *(&compute + state_.compiled.lockstep.stream);
  compute.leaves_lockstep = transfers.leaves_lockstep = true;
  continue_after(transfers);
  continue_after(compute);
}

/// If a stream waits in lockstep, it is runnable again.
template <class Recorder>
inline void Worker<Recorder>::continue_after(StreamState& s) {
  if (!std::exchange(s.waits_in_lockstep, false)) return;
  set_waits_for_compute(s, false);
  runnable_.push_back(static_cast<std::int32_t>(&s - state_.streams.data()));
}

/// In a deadlock the members that are ready go as far as they can by themselves. False: none waits for others.
template <class Recorder>
inline bool Worker<Recorder>::leave_all_lockstep() {
  for (std::size_t rank = 0; rank < state_.ranks.size(); ++rank) {
    StreamState& compute = state_.streams[rank * state_.stream_count + kComputeStream];
    if (compute.waits_in_lockstep && owns(compute.rank)) leave_lockstep(compute);
  }
  return !runnable_.empty();
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
  StreamState s = streams_of(at)[state_.compiled.lockstep.stream];
  std::int32_t item = 0;
  const StreamOp* const next = next_op(s, item);
  if (next != &state_.compiled.stream_ops[static_cast<std::size_t>(run.first_transfer)] || item != at.item_index)
    return false;
  if (contention_ == nullptr) return true;
  skip_transfers(at, run, s);
  const StreamOp* const after = next_op(s, item);
  if (after == nullptr || after->lockstep_run >= 0) return true;  // of a run that has not begun
  s.waits_for_compute = false;
  return waits_for_compute(at.stream + s.lane, s);
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
    StreamState& transfers = streams_of(at)[state_.compiled.lockstep.stream];
    skip_transfers(at, run, transfers);
    std::int32_t item = 0;
    if (const StreamOp* const next = next_op(transfers, item); next != nullptr && next->lockstep_run < 0)
      continue_after(transfers);
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
  const auto lane = static_cast<std::size_t>(s.lane);
  if (run.end_transfers < state_.compiled.first_stream_op(at.item->compiled_template, lane + 1)) return;
  s.next_op = 0;
  ++s.items;
}

}  // namespace tracecast::engine
