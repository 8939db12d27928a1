/// \file
/// Estimated times of the virtual stages of a step, for the search of schedules that are made for given times.
///
/// Every backward is split into input and weight gradients. A time is how long the compute stream needs for one pass
/// without waiting for anything outside it: computation, and the exposed part of collectives of tensor, context and
/// expert parallelism. Leaves out host time, data-parallel traffic, messages between stages (the longest one is the
/// latency) and the optimizer.
#pragma once

#include <vector>

#include "sim/graph/perturbation.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/graph/step_inputs.hpp"
#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// In picoseconds. Of two copies of the model the first is taken. The ranks of a stage wait for each other, so each stage is as slow
/// as its slowest rank. A search of schedules does not know which ranks are slow.
PipelineTimes stage_times(const StepInputs& inputs, const Perturbation& perturbation = {});

/// How long the compute stream takes for a template on its own, see above. `slowdown`: as Rank::slowdown.
Duration time_alone(const StepGraph& graph, const Template& each, std::int32_t slowdown = kNoSlowdown);

/// One micro-batch through all layers of each rank.
std::vector<StageTime> rank_times(const Schedule& schedule, const PipelineTimes& times);

/// The mean of all ranks.
ScheduleTimes mean_rank_times(const Schedule& schedule, const PipelineTimes& times);

}  // namespace tracecast
