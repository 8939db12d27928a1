#include "sim/schedule/schedule_run.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "sim/base/integers.hpp"
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

/// Micro-batches that end before the steady state: in-flight numbers settle within P. Where a later rank limits the rate, the first one is
/// delayed only after a number that grows as the difference of their rates becomes small.
int fill(int ranks) { return 4 * ranks + 64; }

/// End of the last part of a micro-batch on the first stage's rank.
std::int64_t end_of_microbatch(const ScheduleRun& run, int microbatch) {
  const std::vector<ActionSpan>& list = run.actions.front();
  const auto found = std::find_if(list.begin(), list.end(), [&](const ActionSpan& span) {
    return span.action.kind == ActionKind::backward && span.action.microbatch == microbatch;
  });
  TRACECAST_ASSERT(found != list.end(), "every micro-batch has a backward on the first stage");
  return found->end;
}

/// The least number of micro-batches, at least `microbatches`, after which the times repeat. Those of 1F1B repeat after as many as are
/// in flight on the rank that limits the rate: at most P. Where no number is exact, a multiple of P.
int whole_periods(const ScheduleRun& run, int before, int microbatches) {
  const int ranks = static_cast<int>(run.actions.size());
  std::vector<std::int64_t> ends;
  for (int i = before - 1; i < before + microbatches + ranks; ++i) ends.push_back(end_of_microbatch(run, i));
  int period = 1;
  const auto repeats = [&] {
    const auto after = static_cast<std::size_t>(period);
    for (std::size_t i = 0; i + after < ends.size(); ++i)
      if (ends[i + after] - ends[i] != ends[after] - ends[0]) return false;
    return true;
  };
  while (period < ranks && !repeats()) ++period;
  return ceil_div(microbatches, period) * period;
}

/// What runs from time `from` on, which becomes 0, with `stretch` ticks for one. Actions that reach over an end are cut.
std::vector<std::vector<ActionSpan>> part_of(const ScheduleRun& run, std::int64_t from, std::int64_t length,
                                             int stretch) {
  std::vector<std::vector<ActionSpan>> actions(run.actions.size());
  for (std::size_t rank = 0; rank < actions.size(); ++rank)
    for (ActionSpan span : run.actions[rank]) {
      span.start = std::max<std::int64_t>(0, (span.start - from) * stretch);
      span.end = std::min(length, (span.end - from) * stretch);
      if (span.end > 0 && span.start < length) actions[rank].push_back(span);
    }
  return actions;
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

int steady_state_microbatches(int ranks, int microbatches) { return fill(ranks) + microbatches + 2 * ranks; }

ScheduleRun steady_state(const ScheduleRun& longer, int microbatches) {
  const int before = fill(static_cast<int>(longer.actions.size()));
  const int measured = whole_periods(longer, before, microbatches);
  const std::int64_t from = end_of_microbatch(longer, before - 1);
  const std::int64_t to = end_of_microbatch(longer, before + measured - 1);
  std::vector<int> kept(longer.actions.size());
  for (std::size_t rank = 0; rank < kept.size(); ++rank)
    for (const ActionSpan& span : longer.actions[rank])
      if (span.end <= from) kept[rank] += span.action.kind == ActionKind::forward ? 1 : -1;
  ScheduleRun run = summarise(part_of(longer, from, to - from, 1), longer.scale, std::move(kept));
  // The mean of the measured ones, times `microbatches`, is a whole number of such ticks.
  const int common = std::gcd(measured, microbatches);
  run.scale *= measured / common;
  run.makespan *= microbatches / common;
  run.work *= microbatches / common;
  run.actions = part_of(longer, from, run.makespan, measured / common);
  for (std::vector<ActionSpan>& list : run.actions)
    for (ActionSpan& span : list)
      span.action.microbatch = (span.action.microbatch + before * (microbatches - 1)) % microbatches;
  run.max_rank_span = run.makespan;  // a rank has neither a first nor a last action
  run.own_span_bubble_fraction = run.bubble_fraction;
  return run;
}

}  // namespace tracecast
