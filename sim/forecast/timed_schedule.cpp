#include "sim/forecast/timed_schedule.hpp"

#include <utility>

#include <fmt/format.h>

#include "sim/graph/stage_times.hpp"

namespace tracecast {
namespace {

/// Translates the keys of schedule errors to scenario keys.
Error with_scenario_keys(Error error, const Scenario& scenario) {
  for (Diagnostic& d : error.diagnostics) {
    if (d.key == "stages") d.key = "parallel.pp";
    if (d.key == "virtual") d.key = "parallel.vpp";
    if (d.key.empty() || d.key == "schedule" || d.key == "times") d.key = "parallel.pp_schedule";
    if (d.key != "microbatches") continue;
    d.key = "training.global_batch_size";
    d.message = fmt::format("makes {} micro-batches; {}", d.value, d.message);
    d.value = std::to_string(scenario.training.global_batch_size);
  }
  return error;
}

}  // namespace

Result<Schedule> schedule_of_plan(const Scenario& scenario, const Plan& plan, const Costs& costs,
                                  const NetworkModel& network) {
  ScheduleRequest request;
  request.ranks = plan.parallel.pp;
  request.microbatches = plan.num_microbatches;
  request.chunks = plan.parallel.vpp;
  const std::string& name = plan.parallel.pp_schedule;
  Result<Schedule> schedule = make_schedule(name, request);
  if (schedule && find_schedule(name)->uses_times) {
    const PipelineTimes times = stage_times({scenario.model, plan, *schedule, scenario.cluster, costs, network});
    request.times = mean_rank_times(*schedule, times);
    schedule = make_schedule(name, request);
  }
  return std::move(schedule).map_error([&](Error error) { return with_scenario_keys(std::move(error), scenario); });
}

}  // namespace tracecast
