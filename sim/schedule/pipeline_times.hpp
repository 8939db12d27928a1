/// \file
/// How long each action of a schedule takes.
///
/// Times are integers in any unit, so that results are exact; `scale` of them make one unit of the user.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

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

/// The sum of the parts of an action, as if nothing in it overlapped.
std::int64_t sum_of_parts(const Schedule& schedule, const PipelineTimes& times, int rank, const Action& action);

/// Duration of one action.
std::int64_t duration(const Schedule& schedule, const PipelineTimes& times, int rank, const Action& action);

}  // namespace tracecast
