/// \file
/// The schedule of a scenario, and the times of its stages.
#pragma once

#include "sim/base/result.hpp"
#include "sim/cost/costs.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/pipeline_run.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// The schedule of a plan. Schedules that depend on stage times are made for the real times of its stages. Errors:
/// those of make_schedule, with scenario keys.
Result<Schedule> schedule_of_plan(const Scenario& scenario, const Plan& plan, const Costs& costs,
                                  const NetworkModel& network);

struct TimedSchedule {
  Schedule schedule;
  PipelineTimes times;  ///< in picoseconds; the scale converts them to milliseconds
};

/// Plans the scenario, makes its schedule and takes the times of its stages from the profile.
/// Errors: those of make_plan and schedule_of_plan, located in the scenario's file.
Result<TimedSchedule> timed_schedule(const Scenario& scenario);

}  // namespace tracecast
