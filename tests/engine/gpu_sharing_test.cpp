#include "sim/engine/gpu_sharing.hpp"

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/graph/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

/// One rank: an operator, and a concurrent collective that takes half of the GPU's 132 SMs.
StepGraph two_streams(Duration compute, Duration transfer, OperatorKind kind = OperatorKind::gemm) {
  StepGraph graph;
  graph.streams = {{"compute"}, {"dp"}};
  graph.microbatches = 1;
  CostedOperator work;
  work.op.kind = kind;
  work.cost.duration = compute;
  graph.operators = {work};
  CostedCollective call;
  call.cost.duration = transfer;
  call.cost.channels = 66;
  call.call.size = {800'000'000};
  graph.collectives = {call};
  Op moving;
  moving.type = OpType::collective;
  moving.stream = 1;
  moving.payload = 0;
  moving.duration = transfer;
  Op working;
  working.payload = 0;
  working.duration = compute;
  Template both;
  both.ops = {moving, working};
  graph.templates = {both};
  graph.programs = {{{0, 0}}};
  Rank rank;
  rank.communicators = {0};
  graph.ranks = {rank};
  Communicator communicator;
  communicator.members = {0};
  graph.communicators = {communicator};
  return graph;
}

Profile gpu_of_132() {
  Profile gpu;
  gpu.sms = 132;
  gpu.memory_bandwidth = 3.2e12;
  return gpu;
}

Duration after(const StepGraph& base, int rounds) {
  StepGraph graph = base;
  for (int round = 0; round < rounds; ++round)
    graph = slowed_by_transfers(base, *simulate(graph, {.record_spans = true}), gpu_of_132());
  return graph.templates[0].ops[1].duration;
}

TEST_CASE("GPU sharing: compute hidden by a longer transfer runs at the remaining share", "[oracle][engine]") {
  // Half of the SMs: twice the time.
  CHECK(after(two_streams(200_us, 1_ms), 1) == 400_us);
  // 800 MB in 1 ms, read once and written once, is 1.6 TB/s of 3.2: memory-bound work at half its speed.
  CHECK(seconds(after(two_streams(200_us, 1_ms, OperatorKind::norm), 1)) == Approx(400e-6).epsilon(1e-6));
  CHECK(after(two_streams(200_us, Duration{}), 1) == 200_us);
}

TEST_CASE("GPU sharing: compute longer than a transfer is slowed while the transfer moves", "[oracle][engine]") {
  // 0.4 ms at half speed do 0.2 ms of work, the other 0.8 ms follow.
  CHECK(seconds(after(two_streams(1_ms, 400_us), 6)) == Approx(1.2e-3).epsilon(0.001));
}

TEST_CASE("GPU sharing: Galvatron's 1.126 on A100", "[oracle][engine]") {
  Profile a100;
  a100.sms = 108;
  CollectiveCost cost;
  cost.channels = 12;
  CHECK(1 / speed_during(a100, OperatorKind::gemm, cost, 1_GiB) == Approx(1.126).epsilon(0.002));
  cost.channels = 200;
  CHECK(speed_during(a100, OperatorKind::gemm, cost, 1_GiB) == Approx(0.1));
}

TEST_CASE("GPU sharing: a step whose transfers slow its compute", "[metamorphic][engine]") {
  Scenario scenario = test::small_scenario(1, 2, 8);
  scenario.parallel.overlap_grad_reduce = true;
  scenario.parallel.ddp_bucket_size = 1'000'000;  // leaves while the backward goes on
  const auto step = [&](bool slowed, bool unfold) {
    return forecast(scenario, {.unfold = unfold, .transfers_slow_compute = slowed})->timeline;
  };
  const Timeline folded = step(true, false);
  CHECK(folded.step_time.picoseconds > step(false, false).step_time.picoseconds);
  CHECK(folded.step_time == step(true, true).step_time);
  CHECK(folded.spans.empty());
  scenario.profile.sms *= 1000;
  scenario.profile.memory_bandwidth *= 1000;
  const double fast = seconds(step(true, false).step_time);
  CHECK(fast == Approx(seconds(step(false, false).step_time)).epsilon(0.001));
}

}  // namespace
