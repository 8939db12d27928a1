/// \file
/// When the actions of a pipeline schedule run: with given times, or in the step of a scenario. The engine simulates
/// both, so that a schedule drawn for a scenario has the times of its forecast.
#pragma once

#include "sim/base/result.hpp"
#include "sim/graph/perturbation.hpp"
#include "sim/graph/schedule_graph.hpp"
#include "sim/io/scenario.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/program.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/schedule/schedule_run.hpp"

namespace tracecast {

/// `program`: the communication of the schedule; null: as the rules say. Requires a schedule that check() accepts.
/// Errors: a deadlock, as the cycle of waits; messages that need too many streams.
Result<ScheduleRun> run_schedule(const Schedule& schedule, const PipelineTimes& times, const MessageRules& rules = {},
                                 const PipelineProgram* program = nullptr);

/// A micro-batch through all layers of each rank, the mean of all micro-batches; 0 where a schedule has no such action.
/// In ticks, [rank].
struct RankPassTimes {
  std::vector<double> forward, backward, backward_input, backward_weight, overlapped;
};
RankPassTimes mean_pass_times(const Schedule& schedule, const ScheduleRun& run);

/// Times of the virtual stages that `schedule` cuts the model of a scenario into, in picoseconds, with a scale of milliseconds: one
/// micro-batch without traffic of data parallelism, optimizer and host (sim/graph/stage_times.hpp), with the scenario's slow ranks and
/// other GPUs. The schedule decides chunks and micro-batches, not the scenario.
/// Errors: another number of ranks than parallel.pp; those of make_plan.
Result<PipelineTimes> stage_times_in(const Scenario& scenario, const Schedule& schedule);

/// The bubble of the schedule alone, with the times of the scenario's stages: waiting in forward and backward over their
/// makespan, without host, messages, data parallelism and optimizer. One micro-batch on P stages makes (P-1)/P.
/// Errors: those of stage_times_in and run_schedule.
/// Requires   replicas that do not differ
Result<double> schedule_bubble(const Scenario& scenario, const Schedule& schedule);
/// Whether a rank computes at another speed, or has another GPU, than its counterparts in data parallelism.
bool replicas_differ(const Perturbation& perturbation, const Plan& plan);

/// The pipeline of a simulated step.
struct ScenarioRun {
  Schedule schedule;
  /// In picoseconds; the scale converts them to milliseconds. An action lasts from the first to the last computation of
  /// the first rank at that pipeline position. The makespan is the step time of the forecast, the bubble its waiting
  /// for other ranks (bubble and exposed pipeline communication). Without a flush: see steady_state; updates
  /// after every backward are not in the bubble. With one update for all micro-batches (PipeDream-2BW) the makespan also has what the
  /// step with a flush spends outside its passes: host, parameter gathers, exposed gradients, update. No action has that time.
  ScheduleRun run;
  Duration longest_message;
};

/// The step that `forecast` simulates, reduced to its pipeline.
/// Errors: those of forecast.
Result<ScenarioRun> run_pipeline(const Scenario& scenario);

}  // namespace tracecast
