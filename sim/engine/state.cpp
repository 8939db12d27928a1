#include "sim/engine/state.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tracecast::engine {
namespace {

std::size_t most_segments(const CompiledGraph& compiled) {
  std::size_t most = 0;
  for (const CompiledProgram& program : compiled.programs) most = std::max(most, program.syncs.size());
  return most + 1;
}

}  // namespace

State::State(const StepGraph& step_graph, const CompiledGraph& compiled_graph)
    : graph(step_graph),
      compiled(compiled_graph),
      stream_count(step_graph.streams.size()),
      streams(step_graph.ranks.size() * stream_count),
      ranks(step_graph.ranks.size()),
      clocks(step_graph.ranks.size()),
      events(step_graph.ranks.size() * static_cast<std::size_t>(step_graph.rank_events)),
      local_events(step_graph.ranks.size() * static_cast<std::size_t>(step_graph.local_events) * kLocalRing),
      meetings(step_graph.communicators.size()) {
  find_mailboxes();
  place_arrays();
  slow_down();
}

/// Channels on which some template receives; the others need no mails.
void State::find_mailboxes() {
  std::size_t channels = 0;
  for (const Rank& rank : graph.ranks) channels = std::max(channels, rank.channels.size());
  mailbox.assign(channels, kNobody);
  std::int32_t count = 0;
  for (const Step& step : compiled.steps) {
    if (step.type != OpType::receive) continue;
    TRACECAST_ASSERT(step.where >= 0 && static_cast<std::size_t>(step.where) < channels, "a receive names a channel");
    if (mailbox[static_cast<std::size_t>(step.where)] < 0) mailbox[static_cast<std::size_t>(step.where)] = count++;
  }
  mails =
      ZeroedArray<Mail>(ranks.size() * static_cast<std::size_t>(count) * static_cast<std::size_t>(graph.microbatches));
}

void State::place_arrays() {
  const std::size_t segment_count = most_segments(compiled);
  segments.assign(ranks.size() * segment_count, 0);
  const std::size_t own_mails = ranks.empty() ? 0 : mails.size() / ranks.size();
  const auto own_events = static_cast<std::size_t>(graph.rank_events);
  const std::size_t own_locals = static_cast<std::size_t>(graph.local_events) * kLocalRing;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = graph.ranks[r];
    RankState& state = ranks[r];
    state.program = &compiled.programs[static_cast<std::size_t>(rank.program)];
    state.communicators = rank.communicators.data();
    state.channels = rank.channels.data();
    state.events = events.data() + r * own_events;
    state.local_events = local_events.data() + r * own_locals;
    state.mails = mails.data() + r * own_mails;
    state.segments = segments.data() + r * segment_count;
    state.known_segments = 1;
    for (std::size_t lane = 0; lane < stream_count; ++lane) {
      StreamState& stream = streams[r * stream_count + lane];
      stream = {};
      stream.rank = static_cast<std::int32_t>(r);
      stream.lane = static_cast<std::int32_t>(lane);
    }
  }
}

void State::slow_down() {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> known;  // (program, slowness) -> table
  std::vector<std::size_t> table(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Rank& rank = graph.ranks[r];
    if (rank.slowness == kFullSpeed) continue;
    const auto [found, added] = known.try_emplace({rank.program, rank.slowness}, slowed.size());
    if (added) slowed.push_back(slowed_runs(graph, compiled, *ranks[r].program, rank.slowness));
    table[r] = found->second;
  }
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (graph.ranks[r].slowness != kFullSpeed) ranks[r].slowed = slowed[table[r]].data();
}

}  // namespace tracecast::engine
