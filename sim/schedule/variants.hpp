/// The functions behind the table of schedules in schedules.cpp, one per file, and what they share.
///
/// make_schedule has checked that ranks and micro-batches are at least 1 and has filled in `chunks`.
#pragma once

#include <string>
#include <utility>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

Result<Schedule> make_gpipe(const ScheduleRequest& request);
Result<Schedule> make_1f1b(const ScheduleRequest& request);
Result<Schedule> make_interleaved_1f1b(const ScheduleRequest& request);
Result<Schedule> make_pipedream(const ScheduleRequest& request);
Result<Schedule> make_pipedream_2bw(const ScheduleRequest& request);
Result<Schedule> make_looped_bfs(const ScheduleRequest& request);
Result<Schedule> make_chimera(const ScheduleRequest& request);
Result<Schedule> make_zb_h1(const ScheduleRequest& request);
Result<Schedule> make_zb_h2(const ScheduleRequest& request);
Result<Schedule> make_zb_v(const ScheduleRequest& request);
Result<Schedule> make_interleaved_zb(const ScheduleRequest& request);
Result<Schedule> make_dualpipe(const ScheduleRequest& request);
Result<Schedule> make_dualpipev(const ScheduleRequest& request);
Result<Schedule> make_zb_auto(const ScheduleRequest& request);
Result<Schedule> make_zb_auto_1p(const ScheduleRequest& request);
Result<Schedule> make_zb_auto_2p(const ScheduleRequest& request);
Result<Schedule> make_v_half(const ScheduleRequest& request);
Result<Schedule> make_v_min(const ScheduleRequest& request);
Result<Schedule> make_hanayo(const ScheduleRequest& request);

/// A request that a schedule cannot serve: `key` is stages, microbatches or virtual.
inline tl::unexpected<Error> refuse(const char* key, int value, std::string message) {
  return fail({.file = {}, .line = 0, .key = key, .value = std::to_string(value), .message = std::move(message)});
}

/// The error of a schedule whose number of chunks is not open.
inline Result<void> require_chunks(const ScheduleRequest& request, const char* name, int chunks) {
  if (request.chunks == chunks) return {};
  return refuse("virtual", request.chunks,
                std::string(name) + " has " + std::to_string(chunks) + (chunks == 1 ? " chunk" : " chunks") +
                    " per rank (allowed: " + std::to_string(chunks) + ")");
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
