/// \file
/// Receivers of what a worker executes: SpanRecorder keeps a span for each operation, NoSpans keeps nothing, and its calls
/// compile to nothing.
///
/// A cause is the index of the span whose end decided a start; -1: none.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/state.hpp"
#include "sim/engine/timeline.hpp"

namespace tracecast::engine {

class NoSpans {
 public:
  void on_arrival(const OpContext&, bool, const Event*) {}
  std::int32_t cause_of(std::int32_t) const { return -1; }
  void on_send(const PendingMessage&, std::int32_t) {}
  std::int32_t cause_of_message(const PendingMessage&) const { return -1; }
  void on_host_resume(std::int32_t, std::int32_t, const Event*) {}
  template <class EndOf>
  void on_compute(const OpContext&, const StreamOp&, std::int64_t, EndOf) {}
  void on_transfer(const OpContext&, const StreamOp&, std::int64_t, std::int64_t, std::int32_t) {}
  void on_record(const Event&, std::int32_t) {}
};

class SpanRecorder {
 public:
  explicit SpanRecorder(const State& state);

  /// An operation is ready on this rank, because of the host, of the event `decisive`, or of the stream's previous operation.
  void on_arrival(const OpContext& at, bool host_decided, const Event* decisive);
  std::int32_t cause_of(std::int32_t stream) const { return cause_[static_cast<std::size_t>(stream)]; }
  /// An eager message has left; it inherits the cause of its sender.
  void on_send(const PendingMessage& message, std::int32_t sender);
  std::int32_t cause_of_message(const PendingMessage& message) const;
  /// The host begins an issue block; `decisive` is the event that it waited for, or null.
  void on_host_resume(std::int32_t rank, std::int32_t block, const Event* decisive);
  /// Adds a span for each operation of a compute run that is ready at `ready`. `end_of(member, start)` returns the end of
  /// an operation, by its number in the run.
  template <class EndOf>
  void on_compute(const OpContext& at, const StreamOp& op, std::int64_t ready, EndOf end_of);
  void on_transfer(const OpContext& at, const StreamOp& op, std::int64_t start, std::int64_t end, std::int32_t cause);
  /// The last span of `stream` recorded `event`.
  void on_record(const Event& event, std::int32_t stream);

  /// All spans by rank, stream and order of execution; their causes are indices into the result.   Requires that every stream has
  /// finished.
  std::vector<Span> take() { return std::move(spans_); }

 private:
  std::int32_t add(const OpContext& at, std::int32_t op, std::int64_t arrival, std::int64_t start, std::int64_t end,
                   std::int32_t cause);
  /// Index into event_spans_.
  std::size_t index_of(const Event& event) const;
  std::int32_t span_of(const Event& event) const { return event_spans_[index_of(event)]; }
  std::int32_t& host_cause(std::int32_t rank, std::int32_t block);

  const State& state_;
  std::vector<Span> spans_;
  std::vector<std::int32_t> next_;            ///< [stream] where its next span goes
  std::vector<std::int32_t> last_;            ///< [stream] its last span
  std::vector<std::int32_t> cause_;           ///< [stream] of the transfer that it waits in
  std::vector<std::int32_t> event_spans_;     ///< [event], then [local event]
  std::vector<std::int32_t> message_causes_;  ///< [message slot]
  std::vector<std::int32_t> host_causes_;     ///< [rank x issue blocks + issue block]
};

template <class EndOf>
void SpanRecorder::on_compute(const OpContext& at, const StreamOp& op, std::int64_t ready, EndOf end_of) {
  const CompiledTemplate& used = state_.compiled.templates[static_cast<std::size_t>(at.item->compiled_template)];
  const std::span<const std::int32_t> members = state_.compiled.members_of(op);
  std::int64_t clock = ready;
  std::int32_t cause = cause_of(at.stream);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t issued = at.host_base + used.issue[static_cast<std::size_t>(members[i])];
    const std::int64_t start = std::max(clock, issued);
    const std::int64_t end = end_of(i, start);
    cause = add(at, members[i], clock, start, end,
                issued > clock ? host_cause(at.state->rank, at.item->issue_block) : cause);
    clock = end;
  }
}

}  // namespace tracecast::engine
