#include "sim/forecast/summary.hpp"

#include <numeric>
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/forecast_run.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::run;
using tracecast::test::small_scenario;

namespace {

/// Seconds of all parts of the step.
double sum_of_parts(const Forecast& forecast) {
  double sum = forecast.bubble_fraction * forecast.step_time_s + forecast.host_s + forecast.optimizer_s;
  for (const auto& [kind, time] : forecast.compute_s) sum += time;
  return std::accumulate(forecast.exposed_s.begin(), forecast.exposed_s.end(), sum);
}

}  // namespace

TEST_CASE("summary: the parts of a step add up to it, wherever gradients are copied", "[property][forecast]") {
  struct Case {
    DataParallelKind kind;
    int zero_stage;
    const char* schedule;
  };
  const Case all[] = {{DataParallelKind::ddp, 0, "1f1b"},        {DataParallelKind::deepspeed, 1, "1f1b"},
                      {DataParallelKind::deepspeed, 3, "1f1b"},  {DataParallelKind::fsdp1, 3, "chimera"},
                      {DataParallelKind::automatic, 3, "gpipe"}, {DataParallelKind::automatic, 1, "pipedream-2bw"}};
  for (const Case& each : all)
    for (const bool overlap : {true, false})
      for (const int pp : {1, 2}) {
        if (pp == 1 && std::string(each.schedule) != "1f1b") continue;
        Scenario scenario = small_scenario(1, pp, 8 / pp);
        scenario.parallel.data_parallel = each.kind;
        scenario.parallel.zero_stage = each.zero_stage;
        scenario.parallel.overlap_grad_reduce = overlap;
        scenario.parallel.pp_schedule = each.schedule;
        CAPTURE(each.schedule, each.zero_stage, overlap, pp, static_cast<int>(each.kind));
        const Forecast forecast = run(scenario).forecast;
        CHECK(sum_of_parts(forecast) == Approx(forecast.step_time_s).epsilon(1e-6));
      }
}
