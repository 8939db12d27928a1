/// Plans and schedules to take the memory of.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/plan/memory.hpp"
#include "tests/support/results.hpp"

namespace tracecast::test {

/// The settings of docs/references.md#bytes-per-parameter: "2 + 2 + 12" and "2 + 4 + 12".
inline Training zero_paper() {
  return {.seq_length = 2048, .global_batch_size = 64, .grad_reduce_dtype = Precision::bf16};
}
inline Training megatron() {
  Training training = zero_paper();
  training.grad_reduce_dtype = Precision::fp32;
  return training;
}

inline Plan plan_of(const Model& model, const Parallel& parallel, const Training& training, int dp = 1) {
  return value_of(make_plan(model, parallel, training, parallel.tp * parallel.pp * parallel.cp * dp));
}

inline Schedule schedule_of(const Plan& plan, const std::string& name) {
  const ScheduleRequest request{
      .ranks = plan.parallel.pp, .microbatches = plan.num_microbatches, .chunks = plan.parallel.vpp};
  return value_of(make_schedule(name, request));
}

/// One rank, one chunk, the given actions.
inline Schedule by_hand(std::vector<Action> actions) {
  Schedule schedule;
  schedule.name = "by hand";
  schedule.ranks = 1;
  schedule.stage_of = {{0}};
  schedule.actions = {std::move(actions)};
  return schedule;
}

inline Schedule one_microbatch() { return by_hand({{ActionKind::forward}, {ActionKind::backward}}); }

inline MemoryByKind peak(const Model& model, const Plan& plan) {
  return peak_memory(model, plan, one_microbatch()).at(0);
}

}  // namespace tracecast::test
