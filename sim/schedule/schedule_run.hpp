/// \file
/// When the actions of a schedule ran, and the numbers that follow from it: makespan, bubbles, activations kept.
///
/// Two bubbles, each a fraction of 1, never negative:
///
///   bubble           1 - mean work of the ranks / makespan: idle time of the mean rank, as in a forecast
///   own-span bubble  1 - mean work of the ranks / longest span of a rank: the bubble of the zero-bubble papers, where
///                    a rank begins its next step as soon as it has ended this one. Not of a forecast, whose step also has
///                    an optimizer, collectives and host time
///
/// The work of an overlapped pair is the time of the pair.
/// Source: docs/references.md#bubble-definitions
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// One action and its time.
struct ActionSpan {
  Action action;
  std::int64_t start = 0;
  std::int64_t end = 0;
  bool operator==(const ActionSpan&) const = default;
};

struct ScheduleRun {
  std::int64_t scale = 1;                        ///< ticks per unit of the user
  std::int64_t makespan = 0;                     ///< last end of all
  std::int64_t work = 0;                         ///< of the busiest rank
  std::int64_t max_rank_span = 0;                ///< longest time from a rank's own first start to its own last end
  double bubble_fraction = 0;                    ///< see above
  double own_span_bubble_fraction = 0;           ///< see above
  std::vector<std::vector<ActionSpan>> actions;  ///< [rank], in order
  std::vector<int> kept_at_start;                ///< [rank] chunk-forwards kept at time 0; 0 unless a steady state
  /// [rank] most chunk-forwards started and not released, at the end of B or I, or at the end of B or W.
  std::vector<int> peak_inflight;
  std::vector<int> peak_inflight_until_weight;
  bool operator==(const ScheduleRun&) const = default;
};

/// Adds the numbers of a run. Without `kept_at_start` every rank starts with nothing kept.
ScheduleRun summarise(std::vector<std::vector<ActionSpan>> actions, std::int64_t scale,
                      std::vector<int> kept_at_start = {});

/// Micro-batches to run of a schedule without a flush, so that `steady_state` finds `microbatches` of them.
int steady_state_microbatches(int ranks, int microbatches);

/// The part of a run in which `microbatches` micro-batches end at the mean rate, after the pipeline has been filled and before it is
/// drained. The rate is that of whole periods of the schedule, and `scale` is a multiple of that of the run, so that it is exact.
/// Times begin at 0, micro-batches are numbered modulo `microbatches`, and actions that reach over the boundaries are cut.
/// Requires the run of a schedule without chunks, of steady_state_microbatches() micro-batches.
ScheduleRun steady_state(const ScheduleRun& longer, int microbatches);

}  // namespace tracecast
