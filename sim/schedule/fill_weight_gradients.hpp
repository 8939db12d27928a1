/// \file
/// Puts weight gradients where a rank would wait: the part that V-Half and V-Min share.
#pragma once

#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// `schedule` holds forwards and input gradients; their order stays. Each rank runs it with `times`. It puts weight gradients,
/// oldest first, before an action whose inputs come late by at least half a weight gradient, and before a forward at the limit.
/// What is left comes at the end.
///
/// limit      chunk-forwards started whose weight gradient is not done; at the limit, one is done first
/// Requires   a limit of at least the forwards in flight that the order itself needs
Schedule fill_weight_gradients(const Schedule& schedule, const PipelineTimes& times, int limit);

}  // namespace tracecast
