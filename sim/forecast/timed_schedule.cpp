#include "sim/forecast/timed_schedule.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/graph/stage_times.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/memory.hpp"

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

ScheduleRequest request_of(const Plan& plan) {
  return {.ranks = plan.parallel.pp, .microbatches = plan.num_microbatches, .chunks = plan.parallel.vpp};
}

/// A 16-bit tensor of [b, s, h] and its gradient.
double received_bytes(const Model& model, const Plan& plan) {
  return rank_bytes(TokenBytes{.whole = 4 * static_cast<double>(model.hidden_size)}, plan);
}

std::vector<RankBytes> bytes_of_ranks(const Model& model, const Plan& plan, const Schedule& schedule) {
  std::vector<RankBytes> ranks;
  for (const std::vector<int>& stages : schedule.stage_of) {
    RankBytes& sum = ranks.emplace_back();
    for (const int index : stages) {
      const Stage& stage = plan.stages[static_cast<std::size_t>(index)];
      sum.forward += static_cast<double>(activation_bytes(model, plan, stage).count);
      sum.weight += static_cast<double>(weight_gradient_bytes(model, plan, stage).count);
      if (index > 0) sum.weight += received_bytes(model, plan);
    }
  }
  return ranks;
}

}  // namespace

ScheduleRequest timed_request(const Model& model, const Plan& plan, const Schedule& schedule,
                              const PipelineTimes& times) {
  ScheduleRequest request = request_of(plan);
  request.times = mean_rank_times(schedule, times);
  request.rank_times = rank_times(schedule, times);
  request.rank_bytes = bytes_of_ranks(model, plan, schedule);
  return request;
}

Result<Schedule> schedule_of_plan(const Scenario& scenario, const Plan& plan, const Costs& costs,
                                  const NetworkModel& network) {
  const std::string& name = plan.parallel.pp_schedule;
  Result<Schedule> schedule = make_schedule(name, request_of(plan));
  if (schedule && find_schedule(name)->uses_times) {
    const PipelineTimes times = stage_times({scenario.model, plan, *schedule, scenario.cluster, costs, network});
    schedule = make_schedule(name, timed_request(scenario.model, plan, *schedule, times));
  }
  return std::move(schedule).map_error([&](Error error) { return with_scenario_keys(std::move(error), scenario); });
}

}  // namespace tracecast
