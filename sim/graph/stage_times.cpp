#include "sim/graph/stage_times.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/graph/builder.hpp"

namespace tracecast {

namespace {

/// The same schedule with every backward in its two parts and no overlapped pairs.
Schedule split(Schedule schedule) {
  for (std::vector<Action>& list : schedule.actions) {
    std::vector<Action> parts;
    const auto put = [&](ActionKind kind, std::int16_t chunk, std::int32_t microbatch) {
      parts.push_back({.kind = kind, .chunk = chunk, .microbatch = microbatch});
    };
    for (const Action& action : list) {
      const bool pair = action.kind == ActionKind::forward_backward;
      if (!pair && action.kind != ActionKind::backward) {
        parts.push_back(action);
        continue;
      }
      if (pair) put(ActionKind::forward, action.chunk, action.microbatch);
      const std::int16_t chunk = pair ? action.chunk2 : action.chunk;
      const std::int32_t microbatch = pair ? action.microbatch2 : action.microbatch;
      put(ActionKind::backward_input, chunk, microbatch);
      put(ActionKind::backward_weight, chunk, microbatch);
    }
    list = std::move(parts);
  }
  return schedule;
}

/// Within a pass: waited for by the pass itself, not by others.
bool belongs_to_pass(const StepGraph& graph, const Op& op) {
  if (op.type == OpType::compute) return true;
  if (op.type != OpType::collective) return false;
  const Traffic traffic = graph.collectives[static_cast<std::size_t>(op.payload)].traffic;
  return traffic == Traffic::tensor_parallel || traffic == Traffic::context_parallel ||
         traffic == Traffic::expert_parallel;
}

std::int64_t& part_of(StageTime& time, Phase phase) {
  if (phase == Phase::forward) return time.forward;
  return phase == Phase::backward ? time.backward_input : time.backward_weight;
}

/// [pipeline rank][GPU] the slowdown of the slowest of these ranks.
std::vector<std::map<int, std::int32_t>> slowdowns_of(const Plan& plan, const Perturbation& perturbation) {
  std::vector<std::map<int, std::int32_t>> slowest(static_cast<std::size_t>(plan.parallel.pp));
  for (int rank = 0; rank < plan.world_size; ++rank) {
    auto& of_stage = slowest[static_cast<std::size_t>(plan.grid.coordinates(rank)[Axis::pp])];
    std::int32_t& slowdown = of_stage[gpu_of(perturbation, rank)];
    slowdown = std::max(slowdown, slowdown_of(perturbation, rank));
  }
  return slowest;
}

std::int64_t longest_message(const StepGraph& graph) {
  std::int64_t longest = 0;
  for (const Template& each : graph.templates) {
    for (const Op& op : each.ops) {
      if (op.type == OpType::send) longest = std::max(longest, op.duration.picoseconds);
    }
  }
  return longest;
}

}  // namespace

Duration time_alone(const StepGraph& graph, const Template& each, std::int32_t slowdown) {
  std::map<std::pair<std::int32_t, std::int32_t>, Duration> recorded;
  std::map<StreamId, Duration> free_at;
  for (const Op& op : each.ops) {
    Duration start = free_at[op.stream];
    for (const EventRef& event : op.waits) {
      const auto found = recorded.find({event.base, event.stride});
      if (found != recorded.end()) start = std::max(start, found->second);
    }
    const Duration duration = op.type == OpType::compute ? scale_duration(op.duration, slowdown) : op.duration;
    const Duration end = start + (belongs_to_pass(graph, op) ? duration : Duration{});
    free_at[op.stream] = end;
    if (!op.records.none()) recorded[{op.records.base, op.records.stride}] = end;
  }
  return free_at[kComputeStream];
}

PipelineTimes stage_times(const StepInputs& inputs, const Perturbation& perturbation) {
  const Schedule& schedule = inputs.schedule;
  const Schedule parts = split(schedule);
  // Slow ranks would each be a class of their own; only another GPU has other templates.
  const Perturbation other_gpus{.slow_ranks = {}, .gpus = perturbation.gpus};
  const StepGraph graph = build_step_graph(
      {inputs.model, inputs.plan, parts, inputs.cluster, inputs.costs, inputs.network}, {.perturbation = &other_gpus});
  const std::vector<std::map<int, std::int32_t>> slowdowns = slowdowns_of(inputs.plan, perturbation);
  PipelineTimes times;
  times.stages.assign(static_cast<std::size_t>(schedule.stages()), {0, 0, 0});
  times.latency = longest_message(graph);
  std::map<std::pair<std::int32_t, std::int32_t>, Duration> alone;  // (template, slowdown)
  for (const Rank& rank : graph.ranks) {
    const auto pp = static_cast<std::size_t>(rank.pp_rank);
    const std::int32_t slowdown = slowdowns[pp].at(gpu_of(perturbation, rank.representative));
    for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(rank.program)]) {
      const Template& each = graph.templates[static_cast<std::size_t>(item.template_index)];
      const auto chunk = static_cast<std::size_t>(each.chunk);
      if (each.phase == Phase::optimizer || schedule.replica_of[pp][chunk] > 0) continue;
      const auto [time, added] = alone.try_emplace({item.template_index, slowdown});
      if (added) time->second = time_alone(graph, each, slowdown);
      std::int64_t& part = part_of(times.stages[static_cast<std::size_t>(schedule.stage_of[pp][chunk])], each.phase);
      part = std::max(part, time->second.picoseconds);
    }
  }
  return times;
}

std::vector<StageTime> rank_times(const Schedule& schedule, const PipelineTimes& times) {
  std::vector<StageTime> ranks;
  for (const std::vector<int>& stages : schedule.stage_of) {
    StageTime& sum = ranks.emplace_back(StageTime{0, 0, 0});
    for (const int stage : stages) {
      const StageTime& each = times.stages[static_cast<std::size_t>(stage)];
      sum.forward += each.forward;
      sum.backward_input += each.backward_input;
      sum.backward_weight += each.backward_weight;
    }
  }
  return ranks;
}

ScheduleTimes mean_rank_times(const Schedule& schedule, const PipelineTimes& times) {
  StageTime sum{0, 0, 0};
  for (const StageTime& stage : times.stages) {
    sum.forward += stage.forward;
    sum.backward_input += stage.backward_input;
    sum.backward_weight += stage.backward_weight;
  }
  const auto mean = [&](std::int64_t total) { return ceil_div(total, schedule.ranks); };
  return {mean(sum.forward), mean(sum.backward_input), mean(sum.backward_weight), times.latency};
}

}  // namespace tracecast
