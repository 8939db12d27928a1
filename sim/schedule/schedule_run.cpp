#include "sim/schedule/schedule_run.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/base/result.hpp"

namespace tracecast {

namespace {

bool starts_forward(ActionKind kind) { return kind == ActionKind::forward || kind == ActionKind::forward_backward; }
bool ends_backward(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::forward_backward; }

/// The most chunk-forwards kept on a rank; `release`: the part of a divided backward that releases one.
int peak_kept(const std::vector<ActionSpan>& actions, int kept, ActionKind release) {
  int peak = kept;
  for (const ActionSpan& span : actions) {
    if (starts_forward(span.action.kind)) peak = std::max(peak, ++kept);
    if (ends_backward(span.action.kind) || span.action.kind == release) --kept;
  }
  return peak;
}

double idle_fraction(double work, std::int64_t time) {
  return time == 0 ? 0 : std::max(0.0, 1 - work / static_cast<double>(time));
}

/// Micro-batches that end before the steady state: in-flight numbers settle within P, uneven times after a few more.
int fill(int ranks) { return 4 * ranks; }

/// End of the last part of a micro-batch on the first stage's rank.
std::int64_t end_of_microbatch(const ScheduleRun& run, int microbatch) {
  const std::vector<ActionSpan>& list = run.actions.front();
  const auto found = std::find_if(list.begin(), list.end(), [&](const ActionSpan& span) {
    return span.action.kind == ActionKind::backward && span.action.microbatch == microbatch;
  });
  TRACECAST_ASSERT(found != list.end(), "every micro-batch has a backward on the first stage");
  return found->end;
}

}  // namespace

ScheduleRun summarise(std::vector<std::vector<ActionSpan>> actions, std::int64_t scale,
                      std::vector<int> kept_at_start) {
  ScheduleRun run;
  run.scale = scale;
  run.actions = std::move(actions);
  run.kept_at_start = std::move(kept_at_start);
  run.kept_at_start.resize(run.actions.size());
  double total_work = 0;
  for (std::size_t rank = 0; rank < run.actions.size(); ++rank) {
    const std::vector<ActionSpan>& list = run.actions[rank];
    std::int64_t work = 0;
    for (const ActionSpan& span : list) work += span.end - span.start;
    total_work += static_cast<double>(work);
    run.work = std::max(run.work, work);
    run.peak_inflight.push_back(peak_kept(list, run.kept_at_start[rank], ActionKind::backward_input));
    run.peak_inflight_until_weight.push_back(peak_kept(list, run.kept_at_start[rank], ActionKind::backward_weight));
    if (list.empty()) continue;
    run.makespan = std::max(run.makespan, list.back().end);
    run.max_rank_span = std::max(run.max_rank_span, list.back().end - list.front().start);
  }
  const double mean_work = total_work / static_cast<double>(std::max<std::size_t>(1, run.actions.size()));
  run.bubble_fraction = idle_fraction(mean_work, run.makespan);
  run.own_span_bubble_fraction = idle_fraction(mean_work, run.max_rank_span);
  return run;
}

int steady_state_microbatches(int ranks, int microbatches) { return fill(ranks) + microbatches + ranks; }

ScheduleRun steady_state(const ScheduleRun& longer, int microbatches) {
  const int before = fill(static_cast<int>(longer.actions.size()));
  const std::int64_t from = end_of_microbatch(longer, before - 1);
  const std::int64_t to = end_of_microbatch(longer, before + microbatches - 1);
  std::vector<std::vector<ActionSpan>> actions(longer.actions.size());
  std::vector<int> kept(longer.actions.size());
  for (std::size_t rank = 0; rank < actions.size(); ++rank) {
    for (ActionSpan span : longer.actions[rank]) {
      if (span.end <= from) kept[rank] += span.action.kind == ActionKind::forward ? 1 : -1;
      if (span.end <= from || span.start >= to) continue;
      span.action.microbatch = (span.action.microbatch + before * (microbatches - 1)) % microbatches;
      span.start = std::max(span.start, from) - from;
      span.end = std::min(span.end, to) - from;
      actions[rank].push_back(span);
    }
  }
  ScheduleRun run = summarise(std::move(actions), longer.scale, std::move(kept));
  run.max_rank_span = run.makespan;  // a rank has neither a first nor a last action
  run.own_span_bubble_fraction = run.bubble_fraction;
  return run;
}

}  // namespace tracecast
