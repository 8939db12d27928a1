/// \file
/// Times on the command line, read as exact decimals: schedules are simulated in integers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast::cli {

/// As written by the user: one number, or one per rank separated by commas. Without unit.
struct TimeTexts {
  std::string forward = "1";
  std::string backward_input = "1";
  std::string backward_weight = "1";
  std::string latency = "0";
  std::string overlapped;  ///< empty: forward and backward run in sequence
};

/// The same as integers: `scale` ticks are one unit.
struct ExactTimes {
  std::vector<std::int64_t> forward, backward_input, backward_weight;  ///< one, or one per rank
  std::int64_t latency = 0;
  std::optional<std::int64_t> overlapped;
  std::int64_t scale = 1;
};

/// Errors: not a decimal number of at most nine digits after the point, below 0 or above 10^9; neither 1 nor `ranks` of
/// them; all 0.
Result<ExactTimes> parse_times(const TimeTexts& texts, int ranks);

/// One number for all ranks: their mean, rounded up. The search for schedules uses it.
ScheduleTimes mean_times(const ExactTimes& times);

/// One for each rank; none where ranks have the same times.
std::vector<StageTime> times_of_ranks(const ExactTimes& times, int ranks);

/// Per stage. Errors: times per rank for a schedule with two copies of the model; numbers too long for exact
/// arithmetic.
Result<PipelineTimes> pipeline_times(const Schedule& schedule, const ExactTimes& times);

}  // namespace tracecast::cli
