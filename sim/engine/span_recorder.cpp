#include "sim/engine/span_recorder.hpp"

#include <algorithm>

namespace tracecast::engine {
namespace {

/// [template x streams + stream] spans of one run of a compiled template.
std::vector<std::int32_t> spans_of_templates(const CompiledGraph& compiled) {
  std::vector<std::int32_t> spans;
  for (std::size_t used = 0; used < compiled.templates.size(); ++used)
    for (std::size_t lane = 0; lane < compiled.streams; ++lane) {
      std::int32_t& count = spans.emplace_back(0);
      const auto index = static_cast<std::int32_t>(used);
      for (std::int32_t op = compiled.first_stream_op(index, lane); op < compiled.first_stream_op(index, lane + 1);
           ++op)
        count += std::max(1, compiled.stream_ops[static_cast<std::size_t>(op)].member_count);
    }
  return spans;
}

}  // namespace

SpanRecorder::SpanRecorder(const State& state)
    : state_(state),
      next_(state.streams.size()),
      last_(state.streams.size(), -1),
      cause_(state.streams.size(), -1),
      event_spans_(state.events.size() + state.local_events.size(), -1),
      message_causes_(state.messages.size(), -1),
      host_causes_(state.issue_block_starts.size(), -1) {
  const std::vector<std::int32_t> spans = spans_of_templates(state.compiled);
  std::int32_t all = 0;
  for (std::size_t stream = 0; stream < next_.size(); ++stream) {
    const StreamState& s = state.streams[stream];
    const CompiledItem* const items = state.ranks[static_cast<std::size_t>(s.rank)].items;
    next_[stream] = all;
    for (const std::int32_t* item = s.items; *item >= 0; ++item)
      all += spans[static_cast<std::size_t>(items[*item].compiled_template) * state.stream_count + s.lane];
  }
  spans_.resize(static_cast<std::size_t>(all));
}

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
  const std::int32_t index = next_[static_cast<std::size_t>(at.stream)]++;
  spans_[static_cast<std::size_t>(index)] = {
      at.state->rank, at.item->template_index, at.item->microbatch, op, {arrival}, {start}, {end}, cause};
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

}  // namespace tracecast::engine
