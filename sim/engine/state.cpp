#include "sim/engine/state.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tracecast::engine {
namespace {

std::size_t max_issue_blocks(const CompiledGraph& compiled) {
  std::size_t max = 0;
  for (const CompiledProgram& program : compiled.programs) max = std::max(max, program.syncs.size());
  return max + 1;
}

std::size_t receiving_channels(const CompiledGraph& compiled) {
  std::set<std::int32_t> channels;
  for (const StreamOp& op : compiled.stream_ops)
    if (op.type == OpType::receive) channels.insert(op.slot_or_channel);
  return channels.size();
}

}  // namespace

double State::bytes(const StepGraph& graph, const CompiledGraph& compiled) {
  const auto rank_events =
      static_cast<double>(graph.rank_events) + static_cast<double>(graph.local_events) * kLocalRing;
  const auto rank_messages = static_cast<double>(receiving_channels(compiled)) * graph.microbatches;
  const auto rank_blocks = static_cast<double>(max_issue_blocks(compiled));
  const double rank_bytes = rank_events * sizeof(Event) + rank_messages * sizeof(PendingMessage) +
                            static_cast<double>(graph.streams.size()) * sizeof(StreamState) +
                            rank_blocks * sizeof(std::int64_t) + sizeof(RankState) + sizeof(TimeBreakdown);
  return static_cast<double>(graph.ranks.size()) * rank_bytes +
         static_cast<double>(graph.communicators.size()) * sizeof(Rendezvous);
}

State::State(const StepGraph& step_graph, const CompiledGraph& compiled_graph)
    : graph(step_graph),
      compiled(compiled_graph),
      stream_count(step_graph.streams.size()),
      streams(step_graph.ranks.size() * stream_count),
      ranks(step_graph.ranks.size()),
      breakdowns(step_graph.ranks.size()),
      events(step_graph.ranks.size() * static_cast<std::size_t>(step_graph.rank_events)),
      local_events(step_graph.ranks.size() * static_cast<std::size_t>(step_graph.local_events) * kLocalRing),
      rendezvous(step_graph.communicators.size()),
      ready_for_lockstep(step_graph.communicators.size()) {
  assign_message_slots();
  assign_arrays();
  compute_runs();
}

/// Gives a slot to each channel on which some template receives.
void State::assign_message_slots() {
  std::size_t channels = 0;
  for (const Rank& rank : graph.ranks) channels = std::max(channels, rank.channels.size());
  message_slots.assign(channels, kNoStream);
  std::int32_t count = 0;
  for (const StreamOp& op : compiled.stream_ops) {
    if (op.type != OpType::receive) continue;
    TRACECAST_ASSERT(op.slot_or_channel >= 0 && static_cast<std::size_t>(op.slot_or_channel) < channels,
                     "a receive has a channel");
    if (message_slots[static_cast<std::size_t>(op.slot_or_channel)] < 0)
      message_slots[static_cast<std::size_t>(op.slot_or_channel)] = count++;
  }
  messages = ZeroedArray<PendingMessage>(ranks.size() * static_cast<std::size_t>(count) *
                                         static_cast<std::size_t>(graph.microbatches));
}

void State::assign_arrays() {
  const std::size_t block_count = max_issue_blocks(compiled);
  issue_block_starts.assign(ranks.size() * block_count, 0);
  const std::size_t rank_messages = ranks.empty() ? 0 : messages.size() / ranks.size();
  const auto rank_events = static_cast<std::size_t>(graph.rank_events);
  const std::size_t rank_locals = static_cast<std::size_t>(graph.local_events) * kLocalRing;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = graph.ranks[r];
    RankState& state = ranks[r];
    state.program = &compiled.programs[static_cast<std::size_t>(compiled.program_of[r])];
    state.items = state.program->items.data();
    state.communicators = rank.communicators.data();
    state.channels = rank.channels.data();
    state.events = events.data() + r * rank_events;
    state.local_events = local_events.data() + r * rank_locals;
    state.messages = messages.data() + r * rank_messages;
    state.issue_block_starts = issue_block_starts.data() + r * block_count;
    state.known_issue_blocks = 1;
    for (std::size_t lane = 0; lane < stream_count; ++lane) {
      StreamState& stream = streams[r * stream_count + lane];
      stream = {};
      stream.rank = static_cast<std::int32_t>(r);
      stream.lane = static_cast<StreamId>(lane);
      stream.items = state.program->streams[lane].data();
    }
  }
}

/// Ranks with the same program, slowdown and batches share a table, and so do equal runs of a template.
void State::compute_runs() {
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::size_t> known;   // program, slowdown, first batch
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> first;  // template, slowdown, batch
  std::vector<std::size_t> table(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = graph.ranks[r];
    if (!has_own_runs(r)) continue;
    const auto [found, added] = known.try_emplace({rank.program, rank.slowdown, rank.first_batch}, first_runs.size());
    table[r] = found->second;
    if (!added) continue;
    std::vector<std::int32_t>& offsets = first_runs.emplace_back();
    for (const CompiledItem& item : ranks[r].program->items) {
      const bool varies = compiled.templates[static_cast<std::size_t>(item.compiled_template)].varies;
      const std::int32_t batch = varies && rank.first_batch >= 0 ? rank.first_batch + item.microbatch : -1;
      const auto [begin, is_new] =
          first.try_emplace({item.template_index, rank.slowdown, batch}, static_cast<std::int32_t>(runs.size()));
      if (is_new) append_runs(graph, compiled, item, rank, runs);
      offsets.push_back(begin->second);
    }
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (has_own_runs(r)) ranks[r].first_runs = first_runs[table[r]].data();
}

}  // namespace tracecast::engine
