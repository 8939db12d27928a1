/// \file
/// The schedule of a scenario, made for the times of its stages if it depends on them.
#pragma once

#include "sim/base/result.hpp"
#include "sim/cost/costs.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/network_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// The schedule of a plan. Schedules that depend on stage times are made for the real times of its stages. Errors:
/// those of make_schedule, with scenario keys.
Result<Schedule> schedule_of_plan(const Scenario& scenario, const Plan& plan, const Costs& costs,
                                  const NetworkModel& network);

}  // namespace tracecast
