/// \file
/// Worker: collectives and messages, alone or on shared links.
#pragma once

#include "sim/engine/worker.hpp"

namespace tracecast::engine {

/// Accounts for a transfer that has ended on this rank.
template <class Recorder>
inline void Worker<Recorder>::finish(const OpContext& at, const StreamOp& op, std::int64_t start, std::int64_t end,
                                     std::int32_t cause) {
  StreamState& s = *at.state;
  const std::int64_t queued_behind = s.arrival == s.clock ? s.waited_to - s.waited_from : 0;
  if (start > s.arrival || queued_behind == 0) {
    s.waited_from = s.arrival - (op.traffic != Traffic::pipeline ? queued_behind : 0);
    s.waited_to = start;
  }
  const Interval interval{s.waited_from, s.waited_to, end, static_cast<std::int8_t>(op.traffic)};
  breakdown_of(at).add_transfer(interval);
  ++executed_;
  end_moving(at, op, start, end);
  recorder_.on_transfer(at, op, start, end, cause);
  s.clock = end;
  record(at, op.records, interval);
}

/// Ends the transfer that `stream` waits in, and makes the stream runnable.
template <class Recorder>
inline void Worker<Recorder>::resume(std::int32_t stream, std::int64_t start, std::int64_t end, std::int32_t cause) {
  const OpContext at = state_.context_of(stream);
  finish(at, state_.compiled.stream_ops[static_cast<std::size_t>(at.state->next_op - 1)], start, end, cause);
  ++at.state->next_op;
  runnable_.push_back(stream);
}

// ---- Shared links ------------------------------------------------------------------------------------------------------

/// The kind of the transfer in the network; -1: it shares no link.
template <class Recorder>
inline std::int32_t Worker<Recorder>::shared_collective(const OpContext& at, const StreamOp& op,
                                                        std::int32_t communicator) const {
  if (sharing_ == nullptr) return -1;
  const Op& source = state_.source(at).ops[static_cast<std::size_t>(op.first_op)];
  return sharing_->transfers.of_collective(communicator, source.payload);
}

template <class Recorder>
inline std::int32_t Worker<Recorder>::shared_message(ChannelEnd sender) const {
  return sharing_ == nullptr ? -1 : sharing_->transfers.of_message(sender.rank, sender.channel);
}

template <class Recorder>
inline void Worker<Recorder>::start_transfer(const InFlightTransfer& transfer, std::int32_t kind) {
  sharing_->network.start(in_flight_.add(transfer), kind, {transfer.start});
}

/// Starts a message whose two ends are ready, or an eager one: then `other` is kNoStream, and `slot` is the receiver's.
/// Returns false: the stream waits for its end.
template <class Recorder>
inline bool Worker<Recorder>::start_message(const OpContext& at, std::int32_t other, PendingMessage* slot,
                                            std::int32_t kind) {
  InFlightTransfer transfer{{}, at.state->arrival, recorder_.cause_of(at.stream), slot};
  enqueue_waiter(transfer.waiters, at.stream);
  if (other != kNoStream) {
    const std::int64_t arrival = stream_state(other).arrival;
    if (arrival > transfer.start)
      std::tie(transfer.start, transfer.cause) = std::pair(arrival, recorder_.cause_of(other));
    enqueue_waiter(transfer.waiters, other);
  }
  start_transfer(transfer, kind);
  return false;
}

/// Thousands of transfers may end at one instant. The streams that continue are executed after each of them, while the data
/// of their ranks is in the cache; the order does not change the result.
template <class Recorder>
inline void Worker<Recorder>::complete_transfers(const std::vector<std::int32_t>& ended, std::int64_t end) {
  for (std::size_t i = 0; i < ended.size(); ++i) {
    fetch_ahead(ended, i);
    complete_transfer(ended[i], end);
    execute_runnable();
  }
}

/// The data of a transfer's streams lies anywhere in memory: it is fetched in advance, each array once what leads to it is
/// there. Of messages that is both ends. Inlined, since GCC 12 drops calls of functions that only fetch.
template <class Recorder>
[[gnu::always_inline]] inline void Worker<Recorder>::fetch_ahead(const std::vector<std::int32_t>& ended,
                                                                 std::size_t at) {
  if (at + 4 >= ended.size()) return;  // as of most instants
  const auto first_of = [&](std::size_t ahead) {
    return at + ahead < ended.size() ? in_flight_.of(ended[at + ahead]).waiters.first : 0;
  };
  const auto second_of = [&](std::int32_t first) { return first != 0 ? stream_state(first - 1).next : 0; };
  if (const std::int32_t first = first_of(16); first != 0) __builtin_prefetch(&stream_state(first - 1));
  if (const std::int32_t second = second_of(first_of(12)); second != 0) __builtin_prefetch(&stream_state(second - 1));
  const std::int32_t near = first_of(8);
  for (const std::int32_t link : {near, second_of(near)}) {
    if (link == 0) continue;
    const auto rank = static_cast<std::size_t>(stream_state(link - 1).rank);
    __builtin_prefetch(&state_.ranks[rank]);
    __builtin_prefetch(&state_.breakdowns[rank]);
  }
  const std::int32_t next = first_of(4);
  for (const std::int32_t link : {next, second_of(next)}) {
    if (link == 0) continue;
    const OpContext context = state_.context_of(link - 1);
    if (const EventRef records = op_of(context).records; !records.none())
      __builtin_prefetch(&state_.event(context, records));
    fetch_next(context);
  }
}

/// What the stream needs for the operation after that at `at`.
template <class Recorder>
[[gnu::always_inline]] inline void Worker<Recorder>::fetch_next(OpContext at) {
  StreamState s = *at.state;
  ++s.next_op;
  const StreamOp* const op = next_op(s, at.item_index);
  if (op == nullptr) return;
  at.item = at.rank->items + at.item_index;
  if (op->wait_count > 0) __builtin_prefetch(&state_.event(at, state_.compiled.waits_of(*op).front()));
  if (op->type == OpType::receive)
    __builtin_prefetch(&state_.message(s.rank, op->slot_or_channel, at.item->microbatch));
}

template <class Recorder>
inline void Worker<Recorder>::complete_transfer(std::int32_t index, std::int64_t end) {
  const InFlightTransfer transfer = in_flight_.remove(index);
  if (transfer.message != nullptr) complete_eager_message(transfer, end);
  take_all(transfer.waiters, [&](std::int32_t stream) { resume(stream, transfer.start, end, transfer.cause); });
}

/// Resumes the receiver of an eager message, or leaves the message in its slot.
template <class Recorder>
inline void Worker<Recorder>::complete_eager_message(const InFlightTransfer& transfer, std::int64_t end) {
  PendingMessage& slot = *transfer.message;
  const std::int32_t sender = transfer.waiters.first - 1;
  if (slot.first == 0) {
    slot = {transfer.start, end, 0, sender + 1};
    recorder_.on_send(slot, sender);
    return;
  }
  const std::int32_t receiver = std::exchange(slot.first, 0) - 1;
  const std::int64_t arrival = stream_state(receiver).arrival;
  resume(receiver, std::max(arrival, transfer.start), std::max(arrival, end), transfer.cause);
}

// ---- Collectives -------------------------------------------------------------------------------------------------------

template <class Recorder>
inline bool Worker<Recorder>::join_collective(const OpContext& at, const StreamOp& op) {
  const std::int32_t communicator = at.rank->communicators[op.slot_or_channel];
  if (exchange_ != nullptr && exchange_->shared(communicator)) return join_across_workers(at, op, communicator);
  Rendezvous completed;
  if (!arrive(at, communicator, completed)) return false;
  const std::int32_t cause = recorder_.cause_of(completed.latest_stream);
  if (const std::int32_t kind = shared_collective(at, op, communicator); kind >= 0) {
    enqueue_waiter(completed.waiters, at.stream);
    begin_moving(completed.waiters, completed.latest, kind);
    start_transfer({completed.waiters, completed.latest, cause, nullptr}, kind);
    return false;
  }
  const std::int64_t end = completed.latest + op.total;
  take_all(completed.waiters, [&](std::int32_t stream) { resume(stream, completed.latest, end, cause); });
  finish(at, op, completed.latest, end, cause);
  return true;
}

/// Arrives at the rendezvous of the communicator. True for the last member, which gets the rendezvous in `completed`.
/// Of members that arrive at the same time, the first rank counts as the latest.
template <class Recorder>
inline bool Worker<Recorder>::arrive(const OpContext& at, std::int32_t communicator, Rendezvous& completed) {
  Rendezvous& rendezvous = state_.rendezvous[static_cast<std::size_t>(communicator)];
  const std::int64_t arrival = at.state->arrival;
  if (rendezvous.arrived == 0 || arrival > rendezvous.latest ||
      (arrival == rendezvous.latest && at.stream < rendezvous.latest_stream)) {
    rendezvous.latest = arrival;
    rendezvous.latest_stream = at.stream;
  }
  ++rendezvous.arrived;
  const auto& members = state_.graph.communicators[static_cast<std::size_t>(communicator)].members;
  if (rendezvous.arrived < static_cast<std::int32_t>(members.size())) {
    enqueue_waiter(rendezvous.waiters, at.stream);
    return false;
  }
  completed = std::exchange(rendezvous, Rendezvous{});
  return true;
}

/// A collective whose members belong to several workers: each worker resumes its own.
template <class Recorder>
inline bool Worker<Recorder>::join_across_workers(const OpContext& at, const StreamOp& op, std::int32_t communicator) {
  Rendezvous completed;
  {
    const std::lock_guard lock(exchange_->mutex_of(communicator));
    if (!arrive(at, communicator, completed)) return false;
  }
  const std::int64_t end = completed.latest + op.total;
  std::vector<std::vector<Release>> releases;
  take_all(completed.waiters, [&](std::int32_t stream) {
    const auto owner = static_cast<std::size_t>(exchange_->owner(stream_state(stream).rank));
    if (releases.size() <= owner) releases.resize(owner + 1);
    releases[owner].push_back({stream, completed.latest, end});
  });
  for (std::size_t owner = 0; owner < releases.size(); ++owner) {
    if (static_cast<std::int32_t>(owner) != number_) {
      if (!releases[owner].empty()) exchange_->send(static_cast<std::int32_t>(owner), releases[owner]);
      continue;
    }
    for (const Release& own : releases[owner]) resume(own.stream, own.start, own.end, -1);
  }
  finish(at, op, completed.latest, end, -1);
  return true;
}

// ---- Messages ----------------------------------------------------------------------------------------------------------

template <class Recorder>
inline bool Worker<Recorder>::send(const OpContext& at, const StreamOp& op) {
  const ChannelEnd to = at.rank->channels[op.slot_or_channel];
  TRACECAST_ASSERT(to.rank >= 0, "a send has a receiver");
  PendingMessage& slot = state_.message(to.rank, to.channel, at.item->microbatch);
  fetch_after(slot);
  if (const std::int32_t kind = shared_message({at.state->rank, op.slot_or_channel}); kind >= 0) {
    if (op.eager) return start_message(at, kNoStream, &slot, kind);
    if (slot.first != 0) return start_message(at, std::exchange(slot.first, 0) - 1, nullptr, kind);
  }
  std::int64_t start = at.state->arrival;
  std::int32_t cause = recorder_.cause_of(at.stream);
  if (slot.first != 0) {
    const std::int32_t receiver = std::exchange(slot.first, 0) - 1;
    const std::int64_t other = stream_state(receiver).arrival;
    if (!op.eager && other > start) std::tie(start, cause) = std::pair(other, recorder_.cause_of(receiver));
    resume(receiver, std::max(other, start), std::max(other, start + op.total), cause);
  } else if (op.eager) {
    slot = {start, start + op.total, 0, at.stream + 1};
    recorder_.on_send(slot, at.stream);
  } else {
    slot.first = at.stream + 1;
    return false;
  }
  finish(at, op, start, start + op.total, cause);
  return true;
}

template <class Recorder>
inline bool Worker<Recorder>::receive(const OpContext& at, const StreamOp& op) {
  PendingMessage& slot = state_.message(at.state->rank, op.slot_or_channel, at.item->microbatch);
  fetch_after(slot);
  const std::int64_t arrival = at.state->arrival;
  if (slot.sender != 0) {
    const std::int64_t end = std::max(arrival, slot.end);
    finish(at, op, std::min(end, std::max(arrival, slot.start)), end,
           arrival > slot.end ? recorder_.cause_of(at.stream) : recorder_.cause_of_message(slot));
    return true;
  }
  if (slot.first == 0) {
    slot.first = at.stream + 1;
    return false;
  }
  const std::int32_t sender = std::exchange(slot.first, 0) - 1;
  if (const std::int32_t kind = shared_message(at.rank->channels[op.slot_or_channel]); kind >= 0)
    return start_message(at, sender, nullptr, kind);
  const std::int64_t other = stream_state(sender).arrival;
  const std::int64_t start = std::max(arrival, other);
  const std::int32_t cause = recorder_.cause_of(arrival > other ? at.stream : sender);
  resume(sender, start, start + op.total, cause);
  finish(at, op, start, start + op.total, cause);
  return true;
}

}  // namespace tracecast::engine
