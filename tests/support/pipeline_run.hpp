/// \file
/// An oracle for runs of a schedule with given times, without the engine: when every action starts and ends, and how much
/// each rank keeps meanwhile.
///
/// Model (docs/references.md#schedule-model): a rank runs its list in order; an action starts at max(rank free, inputs
/// + latency where the producer is another rank). Messages are latency only, links are not shared, and no sender waits.
/// An overlapped pair starts when both of its inputs are there, and delivers both outputs at its end.
/// Leaves out: host time, shared links, memory beyond counting activations.
///
/// The engine is held to it (tests/forecast/schedule_runs_test.cpp); tests of orders use it since it is quick.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

struct Interval {
  std::int64_t start = 0;
  std::int64_t end = 0;
  bool operator==(const Interval&) const = default;
};

struct PipelineRun {
  std::int64_t scale = 1;                      ///< ticks per unit, as given
  std::int64_t makespan = 0;                   ///< last end of all
  std::int64_t ideal = 0;                      ///< work of the busiest rank, overlapped pairs counted as their parts
  std::int64_t max_rank_span = 0;              ///< largest (own last end - own first start)
  std::vector<std::vector<Interval>> actions;  ///< [rank][index in its list]
  /// [rank] most chunk-forwards started and not released, at the end of B or I, or at the end of B or W.
  std::vector<int> peak_inflight;
  std::vector<int> peak_inflight_until_weight;
  bool operator==(const PipelineRun&) const = default;

  /// 1 - ideal / makespan; below zero when overlapping saves more than the bubble costs.
  double bubble_fraction() const {
    return makespan == 0 ? 0 : 1 - static_cast<double>(ideal) / static_cast<double>(makespan);
  }
};

/// Requires a schedule that `check` accepts and a time per stage.   Errors: a deadlock, as the cycle of waits.
Result<PipelineRun> simulate_pipeline(const Schedule& schedule, const PipelineTimes& times);

}  // namespace tracecast
