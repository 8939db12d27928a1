#include "sim/schedule/pipeline_times.hpp"

#include <cstddef>

namespace tracecast {

PipelineTimes uniform_times(const Schedule& schedule, const ScheduleTimes& times,
                            std::optional<std::int64_t> overlapped) {
  const std::int64_t chunks = schedule.chunks / schedule.replicas;
  PipelineTimes result;
  result.stages.assign(static_cast<std::size_t>(schedule.stages()),
                       {times.forward, times.backward_input, times.backward_weight});
  result.latency = times.latency * chunks;
  result.overlapped = overlapped;
  result.scale = chunks;
  return result;
}

std::int64_t sum_of_parts(const Schedule& schedule, const PipelineTimes& times, int rank, const Action& action) {
  const auto stage = [&](int chunk) -> const StageTime& {
    const int index = schedule.stage_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
    return times.stages[static_cast<std::size_t>(index)];
  };
  const StageTime& first = stage(action.chunk);
  switch (action.kind) {
    case ActionKind::forward:
      return first.forward;
    case ActionKind::backward:
      return first.backward_input + first.backward_weight;
    case ActionKind::backward_input:
      return first.backward_input;
    case ActionKind::backward_weight:
      return first.backward_weight;
    case ActionKind::forward_backward:
      break;
  }
  const StageTime& second = stage(action.chunk2);
  return first.forward + second.backward_input + second.backward_weight;
}

std::int64_t duration(const Schedule& schedule, const PipelineTimes& times, int rank, const Action& action) {
  if (action.kind == ActionKind::forward_backward && times.overlapped) return *times.overlapped;
  return sum_of_parts(schedule, times, rank, action);
}

}  // namespace tracecast
