#include "sim/engine/span_recorder.hpp"

#include <algorithm>
#include <utility>

namespace tracecast::engine {

SpanRecorder::SpanRecorder(const State& state)
    : state_(state),
      last_(state.streams.size(), -1),
      cause_(state.streams.size(), -1),
      event_spans_(state.events.size() + state.local_events.size(), -1),
      message_causes_(state.messages.size(), -1),
      host_causes_(state.issue_block_starts.size(), -1) {}

void SpanRecorder::on_arrival(const OpContext& at, bool host_decided, const Event* decisive) {
  const auto stream = static_cast<std::size_t>(at.stream);
  if (host_decided)
    cause_[stream] = host_cause(at.state->rank, at.item->issue_block);
  else
    cause_[stream] = decisive != nullptr ? span_of(*decisive) : last_[stream];
}

void SpanRecorder::on_send(const PendingMessage& message, std::int32_t sender) {
  message_causes_[static_cast<std::size_t>(&message - state_.messages.data())] = cause_of(sender);
}

std::int32_t SpanRecorder::cause_of_message(const PendingMessage& message) const {
  return message_causes_[static_cast<std::size_t>(&message - state_.messages.data())];
}

void SpanRecorder::on_host_resume(std::int32_t rank, std::int32_t block, const Event* decisive) {
  host_cause(rank, block) = decisive != nullptr ? span_of(*decisive) : host_cause(rank, block - 1);
}

void SpanRecorder::on_transfer(const OpContext& at, const StreamOp& op, std::int64_t start, std::int64_t end,
                               std::int32_t cause) {
  add(at, op.first_op, at.state->arrival, start, end, cause);
}

void SpanRecorder::on_record(const Event& event, std::int32_t stream) {
  event_spans_[index_of(event)] = last_[static_cast<std::size_t>(stream)];
}

std::int32_t SpanRecorder::add(const OpContext& at, std::int32_t op, std::int64_t arrival, std::int64_t start,
                               std::int64_t end, std::int32_t cause) {
  const auto index = static_cast<std::int32_t>(spans_.size());
  spans_.push_back(
      {at.state->rank, at.item->template_index, at.item->microbatch, op, {arrival}, {start}, {end}, cause});
  last_[static_cast<std::size_t>(at.stream)] = index;
  return index;
}

std::size_t SpanRecorder::index_of(const Event& event) const {
  const bool of_rank = &event >= state_.events.data() && &event < state_.events.data() + state_.events.size();
  return of_rank ? static_cast<std::size_t>(&event - state_.events.data())
                 : state_.events.size() + static_cast<std::size_t>(&event - state_.local_events.data());
}

std::int32_t& SpanRecorder::host_cause(std::int32_t rank, std::int32_t block) {
  const std::size_t blocks = host_causes_.size() / state_.ranks.size();
  return host_causes_[static_cast<std::size_t>(rank) * blocks + static_cast<std::size_t>(block)];
}

std::vector<Span> SpanRecorder::sorted() const {
  const auto stream_of = [this](const Span& span) {
    const Template& used = state_.graph.templates[static_cast<std::size_t>(span.template_index)];
    const std::int32_t lane = used.ops[static_cast<std::size_t>(span.op)].stream;
    return static_cast<std::size_t>(span.rank) * state_.stream_count + static_cast<std::size_t>(lane);
  };
  std::vector<std::int32_t> next(state_.streams.size() + 1, 0);  // [stream] where its next span goes
  for (const Span& span : spans_) ++next[stream_of(span) + 1];
  for (std::size_t stream = 1; stream < next.size(); ++stream) next[stream] += next[stream - 1];
  std::vector<std::int32_t> position(spans_.size());
  for (std::size_t i = 0; i < position.size(); ++i) position[i] = next[stream_of(spans_[i])]++;
  std::vector<Span> sorted(spans_.size());
  for (std::size_t i = 0; i < position.size(); ++i) {
    Span& span = sorted[static_cast<std::size_t>(position[i])];
    span = spans_[i];
    if (span.cause >= 0) span.cause = position[static_cast<std::size_t>(span.cause)];
  }
  return sorted;
}

}  // namespace tracecast::engine
