// The two bubble definitions, never to be mixed.
#include <catch2/catch.hpp>

#include "sim/forecast/schedule_runs.hpp"
#include "sim/schedule/schedule.hpp"

using namespace tracecast;

TEST_CASE("bubble fraction is 3/11 and bubble overhead 3/8 for four stages and eight micro-batches",
          "[oracle][schedule]") {
  const ScheduleRequest request{.ranks = 4, .microbatches = 8};
  for (const char* name : {"gpipe", "1f1b"}) {
    const Schedule schedule = make_schedule(name, request).value();
    const ScheduleRun run = run_schedule(schedule, uniform_times(schedule, {1, 1, 1, 0})).value();
    CHECK(run.makespan == 33);
    CHECK(run.work == 24);
    CHECK(run.bubble_fraction == Approx(3.0 / 11));  // 1 - ideal / makespan
    CHECK(static_cast<double>(run.makespan - run.work) / static_cast<double>(run.work) ==
          Approx(3.0 / 8));  // Megatron's
  }
}
