/// \file
/// Times of the virtual stages of a real run, for a simulation of its schedule alone.
///
/// Every backward is split, so that input and weight gradients have the times of their own operators. A time is how long
/// the compute stream needs for one pass when nothing outside it is waited for: computation, and collectives of tensor,
/// context and expert parallelism as far as they are exposed. Left out: host time, data-parallel traffic, messages
/// between stages (their longest is the latency), the optimizer.
#pragma once

#include "sim/cost/costs.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/model/model.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/pipeline_run.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// Picoseconds; the scale makes them milliseconds. Of two copies of the model the first is taken.
/// Requires what build_step_graph requires.
PipelineTimes stage_times(const Model& model, const Plan& plan, const Schedule& schedule, const Cluster& cluster,
                          const Costs& costs, const NetworkModel& network);

/// How long the compute stream takes for a template on its own, see above.
Duration time_alone(const StepGraph& graph, const Template& each);

/// One micro-batch through all layers of a rank, the mean of all ranks: what schedules are searched with.
ScheduleTimes mean_rank_times(const Schedule& schedule, const PipelineTimes& times);

}  // namespace tracecast
