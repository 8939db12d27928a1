/// \file
/// The schedule of a scenario, made for the times of its stages if it depends on them.
#pragma once

#include "sim/base/result.hpp"
#include "sim/cost/costs.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// What the schedule of a plan is searched with: the times of its stages, and what its ranks keep of a micro-batch. Ranks
/// that receive a tensor hold it and its gradient until the input gradient is done, which the released auto-scheduler
/// counts to what is left for the weight gradient (docs/references.md#zero-bubble).
ScheduleRequest timed_request(const Model& model, const Plan& plan, const Schedule& schedule,
                              const PipelineTimes& times);

/// The schedule of a plan. Schedules that depend on stage times are made for the real times of its stages. Errors:
/// those of make_schedule, with scenario keys.
Result<Schedule> schedule_of_plan(const Scenario& scenario, const Plan& plan, const Costs& costs,
                                  const NetworkModel& network);

}  // namespace tracecast
