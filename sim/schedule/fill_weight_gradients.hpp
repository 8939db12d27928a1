/// \file
/// Puts weight gradients where a rank would wait: the part that the searched zero-bubble schedules share.
#pragma once

#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

struct FillRule {
  int inflight_limit =
      0;                 ///< chunk-forwards started whose weight gradient is not done; at the limit, one is done first
  int gap_quarters = 2;  ///< a wait is filled when it lasts at least this many quarters of a weight gradient
};

/// `schedule` holds forwards and input gradients; their order stays. Each rank runs it with `times`: before an action
/// whose inputs come late, and before a forward at the limit, it does the weight gradients that are due, oldest first;
/// what is left comes at the end.
/// Requires a limit of at least the forwards in flight that the order itself needs.
Schedule fill_weight_gradients(const Schedule& schedule, const PipelineTimes& times, const FillRule& rule);

}  // namespace tracecast
