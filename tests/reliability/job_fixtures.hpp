/// Jobs for tests, built by hand: steps of one second that train 1000 tokens, unless a test says otherwise.
#pragma once

#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/reliability/job.hpp"

namespace tracecast::test {

inline FixedStepTimes one_second_steps(int replicas = 1) {
  FixedStepTimes steps;
  steps.healthy = {from_seconds(1), 1000};
  steps.replicas = replicas;
  return steps;
}

inline JobTime s(double seconds) { return job_time(seconds); }

/// Something that happens to the job as a whole, a restart is enough.
inline FailureKind every(double mean_s, Effect effect = Effect::crash, LawKind law = LawKind::exponential) {
  return {.name = to_string(effect),
          .law = {law, mean_s, 1},
          .age = FleetAge::fresh,
          .effect = effect,
          .scope = RateUnit::job};
}

/// Happens once, at `at_s`: fixed, and the job is over before it comes again.
inline FailureKind once(double at_s, Effect effect = Effect::crash) { return every(at_s, effect, LawKind::fixed); }

inline CheckpointPolicy every_steps(std::int64_t interval, CheckpointTier tier = {}) {
  return {interval, {std::move(tier)}};
}

/// A job of `nodes` nodes of 8 GPUs that nothing happens to and that costs nothing but its steps.
inline JobSpec quiet_job(int nodes = 1) {
  JobSpec spec;
  spec.machine = {8 * nodes, 8};
  spec.replicas = nodes;
  spec.recovery.repair = {LawKind::fixed, 3600, 1};
  return spec;
}

/// One history, whose parts sum to its length.
inline History run(const JobSpec& spec, const StepTimes& steps, bool spans = false) {
  REQUIRE(check(spec).has_value());
  const Result<History> history = simulate_history(spec, steps, 1, 0, spans);
  REQUIRE(history.has_value());
  CHECK(total(history->waterfall) == history->wall);
  return *history;
}

inline JobTime of(const History& history, TimeCategory what) {
  return history.waterfall[static_cast<std::size_t>(what)];
}

}  // namespace tracecast::test
