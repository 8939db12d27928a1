#include "sim/engine/steady_state.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace tracecast::engine {
namespace {

/// The state of more takes long to compare.
constexpr std::size_t kMostRanks = 512;

struct RankEvents {
  std::set<std::int32_t> of_microbatches;  ///< of micro-batch 0
  std::set<std::int32_t> fixed;
  bool regular = true;  ///< consecutive micro-batches have consecutive numbers, which are those of no other event

  void add(EventRef ref) {
    if (ref.none() || ref.local()) return;
    (ref.stride == 0 ? fixed : of_microbatches).insert(ref.base);
    regular &= ref.stride == 0 || ref.stride == 1;
  }
};

RankEvents rank_events(const StepGraph& graph) {
  RankEvents events;
  for (const Template& each : graph.templates)
    for (const Op& op : each.ops) {
      events.add(op.records);
      for (const EventRef ref : op.waits) events.add(ref);
    }
  std::int32_t free = 0;
  for (const std::int32_t first : events.of_microbatches) {
    events.regular &= first >= free;
    free = first + graph.microbatches;
  }
  events.regular &= free <= graph.rank_events;
  return events;
}

}  // namespace

std::unique_ptr<SteadyState> SteadyState::find(const StepGraph& graph, const CompiledGraph& compiled) {
  if (graph.ranks.empty() || graph.ranks.size() > kMostRanks || !graph.varying.durations.empty()) return nullptr;
  std::optional<Repetition> repetition = find_repetition(compiled);
  if (!repetition) return nullptr;
  RankEvents events = rank_events(graph);
  if (!events.regular) return nullptr;
  auto state = std::make_unique<SteadyState>();
  state->repetition = std::move(*repetition);
  state->events.assign(events.of_microbatches.begin(), events.of_microbatches.end());
  state->fixed_events.assign(events.fixed.begin(), events.fixed.end());
  state->host_decided.assign(graph.ranks.size(), false);
  state->next_item = state->repetition.programs[static_cast<std::size_t>(compiled.program_of.front())].first;
  return state;
}

bool SteadyState::has_fixed_event(std::int32_t lowest, std::int32_t highest) const {
  return std::any_of(events.begin(), events.end(), [&](std::int32_t first) {
    const auto fixed = std::lower_bound(fixed_events.begin(), fixed_events.end(), first + lowest);
    return fixed != fixed_events.end() && *fixed <= first + highest;
  });
}

}  // namespace tracecast::engine
