/// Records of small steps for tests of records and comparisons.
#pragma once

#include <cstdint>

#include "sim/forecast/forecast.hpp"
#include "sim/io/step_record.hpp"
#include "tests/support/small_scenario.hpp"

namespace tracecast::test {

inline StepRecord record(int pp, StepOrigin origin = StepOrigin::simulated) {
  Scenario scenario = small_scenario(1, pp, 1);
  scenario.profile.host = {};  // no gaps between operators
  const ForecastRun run = forecast(scenario, {.record_spans = true}).value();
  return record_of(run.graph, run.timeline, "small", origin);
}

/// The same step with all times multiplied, as an executed step.
inline StepRecord stretched(StepRecord record, std::int64_t factor) {
  record.origin = StepOrigin::executed;
  record.step_time = record.step_time * factor;
  for (StepSpan& span : record.spans)
    span = {span.rank,           span.work,        span.microbatch, span.stream, span.arrival * factor,
            span.start * factor, span.end * factor};
  for (StepRank& rank : record.ranks) {
    rank.time.compute = rank.time.compute * factor;
    rank.time.optimizer = rank.time.optimizer * factor;
    rank.time.bubble = rank.time.bubble * factor;
    rank.time.host = rank.time.host * factor;
    for (Duration& each : rank.time.exposed) each = each * factor;
  }
  return record;
}

}  // namespace tracecast::test
