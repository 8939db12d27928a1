/// \file
/// The rows of all schedules, each defined in its own file of variants/, and what those files share.
///
/// make_schedule has checked that ranks and micro-batches are at least 1, has filled in `chunks`, and has checked it for
/// schedules whose number of chunks is fixed. It also sets the name of the schedule.
#pragma once

#include <string>
#include <utility>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

#define SCHEDULE(file, row) extern const ScheduleVariant row;
#include "sim/schedule/variants/variants.def"
#undef SCHEDULE

/// Inputs of ScheduleRequest that only some schedules read.
bool reads_group_size(const ScheduleVariant& variant);
bool reads_memory_limit(const ScheduleVariant& variant);

/// The error of a request that a schedule cannot serve. `key` is stages, microbatches, virtual or times.
inline tl::unexpected<Error> fail_key(const char* key, int value, std::string message) {
  return fail_key(std::string(key), std::to_string(value), std::move(message));
}

inline Action forward(int chunk, int microbatch) {
  return {.kind = ActionKind::forward, .chunk = static_cast<std::int16_t>(chunk), .microbatch = microbatch};
}
inline Action backward(int chunk, int microbatch) {
  return {.kind = ActionKind::backward, .chunk = static_cast<std::int16_t>(chunk), .microbatch = microbatch};
}
inline Action backward_input(int chunk, int microbatch) {
  return {.kind = ActionKind::backward_input, .chunk = static_cast<std::int16_t>(chunk), .microbatch = microbatch};
}
inline Action backward_weight(int chunk, int microbatch) {
  return {.kind = ActionKind::backward_weight, .chunk = static_cast<std::int16_t>(chunk), .microbatch = microbatch};
}
inline Action overlapped(int forward_chunk, int forward_microbatch, int backward_chunk, int backward_microbatch) {
  return {.kind = ActionKind::forward_backward,
          .chunk = static_cast<std::int16_t>(forward_chunk),
          .microbatch = forward_microbatch,
          .chunk2 = static_cast<std::int16_t>(backward_chunk),
          .microbatch2 = backward_microbatch};
}

}  // namespace tracecast
