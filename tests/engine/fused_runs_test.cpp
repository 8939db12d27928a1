/// FusedRuns against every operation as a step of its own stream, which is what a run with spans is.
#include "sim/engine/fused_runs.hpp"

#include <catch2/catch.hpp>

#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/engine/random_work.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::test;
using namespace tracecast::literals;

namespace {

enum : StreamId { kTensor = 1, kContext, kData };

EventRef local(std::int32_t n) { return {n, EventRef::kLocal}; }

void check_same(const StepGraph& graph) {
  const Result<Timeline> summed = simulate(graph);
  const Result<Timeline> traced = simulate(graph, {}, {.record_spans = true});
  REQUIRE(summed);
  REQUIRE(traced);
  CHECK(summed->step_time == traced->step_time);
  CHECK(summed->ranks == traced->ranks);
  CHECK(summed->ends == traced->ends);
  CHECK(summed->events == traced->events);
}

}  // namespace

TEST_CASE("fused runs: a stream that one template takes from them may take another with it", "[engine]") {
  StepGraph graph;
  graph.streams = {{"compute"}, {"tp"}, {"cp"}, {"dp"}};
  graph.communicators = {{"one", {}, {0}}};
  graph.collectives.resize(2);
  graph.collectives[kTensor - 1].slot = graph.collectives[kContext - 1].slot = 0;
  graph.collectives.push_back({});
  graph.collectives.back().slot = -1;  // of several ranks
  graph.local_events = 3;
  graph.ranks.resize(1);
  graph.ranks[0].communicators = {0};
  const auto compute = [](EventRef waits, std::int32_t records) {
    Op op;
    if (!waits.none()) op.waits = {waits};
    op.records = local(records);
    return op;
  };
  const auto call = [](StreamId stream, std::int32_t waits, std::int32_t records) {
    Op op;
    op.type = OpType::collective;
    op.stream = stream;
    op.payload = stream - kTensor;
    op.waits = {local(waits)};
    op.records = local(records);
    return op;
  };
  Template chain, late;
  chain.ops = {compute({}, 0), call(kTensor, 0, 1), call(kContext, 1, 2)};
  graph.templates = {chain};
  CHECK(engine::find_local_streams(graph, nullptr).local == std::vector<bool>{true, true, true, true});
  // Here tp begins after a second run has begun. Without tp, cp of the chain waits for work outside of its run.
  late.ops = {compute({}, 0), call(kData, 0, 1), compute(local(1), 2), call(kTensor, 0, 3)};
  graph.local_events = 4;
  graph.templates = {chain, late};
  CHECK(engine::find_local_streams(graph, nullptr).local == std::vector<bool>{true, false, false, false});
}

TEST_CASE("fused runs: random work takes as long as its single operations", "[property][engine]") {
  int with_fused_runs = 0;
  int with_local_streams = 0;
  for (unsigned seed = 0; seed < test::cases(20'000U); ++seed) {
    const StepGraph graph = RandomWork(seed, {.tidy = true, .slow_ranks = false}).graph();
    INFO("seed " << seed);
    const engine::LocalStreams streams = engine::find_local_streams(graph, nullptr);
    with_fused_runs += engine::compile(graph, streams).fused_runs.all.empty() ? 0 : 1;
    with_local_streams += streams.local[kTensor] && streams.local[kContext] ? 1 : 0;
    check_same(graph);
  }
  CHECK(with_fused_runs > test::cases(10'000));
  CHECK(with_local_streams > test::cases(1'000));
}

TEST_CASE("fused runs: an isolated run takes its precomputed time", "[oracle][engine]") {
  // 10 of compute, 5 of transfer beside 3 of compute, 4 more after the transfer: 10 + 5 + 4 = 19, of which 2 are exposed.
  Op first;
  first.duration = 10_ps;
  first.records = local(0);
  Op transfer;
  transfer.type = OpType::collective;
  transfer.stream = kTensor;
  transfer.payload = 0;
  transfer.duration = 5_ps;
  transfer.waits = {local(0)};
  transfer.records = local(1);
  Op beside;
  beside.duration = 3_ps;
  Op after;
  after.duration = 4_ps;
  after.waits = {local(1)};
  StepGraph graph;
  graph.streams = {{"compute"}, {"tp"}};
  graph.local_events = 2;
  graph.microbatches = 3;
  graph.collectives.emplace_back();
  graph.communicators = {{"tp", {}, {0}}};
  graph.templates.push_back({"work", Phase::forward, 0, {first, transfer, beside, after}, {}, {}});
  graph.programs = {{{0, 0}, {0, 1}, {0, 2}}};
  Rank rank;
  rank.communicators = {0};
  graph.ranks = {rank};

  const engine::CompiledGraph compiled = engine::compile(graph, engine::find_local_streams(graph, nullptr));
  REQUIRE(compiled.stream_ops.size() == 1);
  REQUIRE(compiled.fused_runs.all.size() == 1);
  const engine::FusedRun& run = compiled.fused_runs.all.front();
  CHECK(run.length == 19);
  CHECK(run.busy == 17);
  CHECK(compiled.fused_runs.exposures.front().time == 2);
  CHECK(compiled.fused_runs.streams.front().first == 10);
  CHECK(compiled.fused_runs.streams.front().last == 15);
  CHECK(simulate(graph).value().step_time == 57_ps);
  check_same(graph);

  // The host needs 6 for each operation: no run is isolated.
  for (Op& op : graph.templates[0].ops) op.host = 6_ps;
  check_same(graph);
  // A transfer so long that the next one waits for it: only the first run is isolated.
  graph.templates[0].ops[1].duration = 40_ps;
  graph.templates[0].ops[3].waits = {};
  check_same(graph);
}

TEST_CASE("fused runs: a collective of several ranks, or on shared links, is not fused", "[engine]") {
  StepGraph graph = forecast(test::small_scenario(2, 2, 2), {}).value().graph;
  CHECK(engine::find_local_streams(graph, nullptr).local[kTensor]);
  for (Communicator& each : graph.communicators) each.members = {0, 1};
  CHECK_FALSE(engine::find_local_streams(graph, nullptr).local[kTensor]);
  graph.ranks.front().slowdown = 2 * kNoSlowdown;
  CHECK_FALSE(engine::find_local_streams(graph, nullptr).fuses);
}

TEST_CASE("fused runs: steps of models are the same with and without spans", "[differential][engine]") {
  for (const auto& [tp, pp, dp] : {std::tuple{8, 1, 2}, std::tuple{2, 4, 2}, std::tuple{4, 2, 4}})
    for (const char* schedule : {"1f1b", "zb-h1"})
      for (const int zero : {0, 1, 3}) {
        Scenario scenario = test::small_scenario(tp, pp, dp);
        scenario.parallel.pp_schedule = schedule;
        scenario.parallel.zero_stage = zero;
        scenario.parallel.overlap_grad_reduce = scenario.parallel.overlap_param_gather = true;
        const Result<ForecastRun> run = forecast(scenario, {});
        if (!run) continue;
        INFO(tp << " x " << pp << " x " << dp << " " << schedule << " zero " << zero);
        check_same(run->graph);
      }
}
