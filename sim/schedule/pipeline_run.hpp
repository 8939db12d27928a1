/// \file
/// A schedule with given times: when every action starts and ends, and how much each rank keeps meanwhile.
///
/// Model (docs/references.md#schedule-model): a rank runs its list in order; an action starts at max(rank free, inputs
/// + latency where the producer is another rank). Messages are latency only, links are not shared, and no sender waits.
/// An overlapped pair starts when both of its inputs are there, and delivers both outputs at its end. Other rules about
/// sends and receives: blocking.hpp. Leaves out: host time, shared links, memory beyond counting activations.
///
/// Times are integers in any unit, so that results are exact; `scale` of them make one unit of the user.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// One micro-batch through one virtual stage.
struct StageTime {
  std::int64_t forward = 1;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  bool operator==(const StageTime&) const = default;
};

struct PipelineTimes {
  std::vector<StageTime> stages;           ///< [virtual stage]
  std::int64_t latency = 0;                ///< of one hop between ranks
  std::optional<std::int64_t> overlapped;  ///< of an overlapped pair; without: the sum of its parts
  std::int64_t scale = 1;                  ///< ticks per unit
};

/// Every stage the same: `times` are of one micro-batch through all layers of one rank, a chunk takes 1/V of that
/// (V: chunks of one copy of the model). The scale is V.
PipelineTimes uniform_times(const Schedule& schedule, const ScheduleTimes& times,
                            std::optional<std::int64_t> overlapped = {});

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

/// Duration of one action.
std::int64_t duration(const Schedule& schedule, const PipelineTimes& times, int rank, const Action& action);

/// Requires a schedule that `check` accepts and a time per stage.   Errors: a deadlock, as the cycle of waits.
Result<PipelineRun> simulate_pipeline(const Schedule& schedule, const PipelineTimes& times);

/// Fills in what follows from `actions`: makespan, ideal, spans and peaks.
void summarise(const Schedule& schedule, const PipelineTimes& times, PipelineRun& run);

}  // namespace tracecast
