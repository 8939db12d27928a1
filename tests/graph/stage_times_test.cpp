#include "sim/graph/stage_times.hpp"

#include <catch2/catch.hpp>

#include "sim/forecast/schedule_runs.hpp"
#include "sim/forecast/timed_schedule.hpp"
#include "sim/graph/builder.hpp"
#include "sim/plan/memory.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

Scenario teaching(const std::vector<std::string>& overrides = {}) {
  return shipped_scenario("pipeline-1f1b", overrides);
}

struct Estimate {
  Schedule schedule;
  PipelineTimes times;
};

/// The schedule of a scenario, and the times that a search would use for it.
Result<Estimate> estimate(const Scenario& scenario) {
  const Plan plan = *make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  const Costs costs(scenario.profile);
  const auto network = make_analytic_network(scenario.cluster, scenario.profile.architecture);
  Result<Schedule> schedule = schedule_of_plan(scenario, plan, costs, *network);
  if (!schedule) return tl::unexpected(schedule.error());
  PipelineTimes times = stage_times({scenario.model, plan, *schedule, scenario.cluster, costs, *network});
  return Estimate{std::move(*schedule), std::move(times)};
}

std::string complaint(const std::vector<std::string>& overrides) {
  return error_text(run_pipeline(teaching(overrides)));
}

}  // namespace

TEST_CASE("a pass alone: what it computes, and collectives that nothing hides", "[graph][schedule]") {
  StepGraph graph;
  graph.collectives.resize(2);
  graph.collectives[0].traffic = Traffic::tensor_parallel;
  graph.collectives[1].traffic = Traffic::gradients;
  constexpr StreamId kTensorStream = 1;
  constexpr StreamId kGradientStream = 2;
  const EventRef computed{0, EventRef::kLocal};
  const EventRef reduced{1, EventRef::kLocal};
  const EventRef from_elsewhere{7, 1};
  Template pass;
  const auto add = [&](OpType type, StreamId stream, std::int32_t payload, Duration duration) -> Op& {
    Op& op = pass.ops.emplace_back();
    op.type = type;
    op.stream = stream;
    op.payload = payload;
    op.duration = duration;
    return op;
  };
  add(OpType::receive, kComputeStream, 0, 50_us);  // another rank's time
  Op& first = add(OpType::compute, kComputeStream, 0, 10_us);
  first.waits = {from_elsewhere};
  first.records = computed;
  Op& reduce = add(OpType::collective, kTensorStream, 0, 6_us);
  reduce.waits = {computed};
  reduce.records = reduced;
  add(OpType::compute, kComputeStream, 0, 4_us);  // hides 4 of the 6
  add(OpType::compute, kComputeStream, 0, 5_us).waits = {reduced};
  add(OpType::collective, kGradientStream, 1, 90_us);
  // 10 + 6 until the collective is done, then 5.
  CHECK(time_alone(graph, pass) == 21_us);
}

TEST_CASE("times of stages: both parts of a backward are the whole, whatever the schedule", "[graph][schedule]") {
  const Estimate plain = *estimate(teaching());
  const Estimate split = *estimate(teaching({"parallel.pp_schedule=zb-h1"}));
  CHECK(plain.times.stages == split.times.stages);
  CHECK(plain.times.latency > 0);
  // A transformer's weight gradients are half of its backward FLOPs, its attention has none: W is shorter than I.
  for (const StageTime& stage : plain.times.stages) {
    CHECK(stage.forward > 0);
    CHECK(stage.backward_weight > 0);
    CHECK(stage.backward_weight < stage.backward_input);
  }
  // The head and the loss are on the last stage.
  CHECK(plain.times.stages.back().forward > plain.times.stages.front().forward);

  const Scenario scenario = teaching();
  const Plan plan = *make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  const Costs costs(scenario.profile);
  const auto network = make_analytic_network(scenario.cluster, scenario.profile.architecture);
  const StepGraph graph = build_step_graph({scenario.model, plan, plain.schedule, scenario.cluster, costs, *network});
  int backwards = 0;
  for (std::size_t rank = 0; rank < graph.programs.size(); ++rank) {
    const StageTime& stage = plain.times.stages[rank];
    for (const ProgramItem& item : graph.programs[rank]) {
      const Template& each = graph.templates[static_cast<std::size_t>(item.template_index)];
      if (each.phase != Phase::backward || each.ops.empty()) continue;
      CHECK(time_alone(graph, each).picoseconds == stage.backward_input + stage.backward_weight);
      ++backwards;
    }
  }
  CHECK(backwards > 0);
}

TEST_CASE("times of stages do not depend on who waits for messages", "[graph][schedule]") {
  // With blocking messages a program has more items than actions; passes are found by what they are, not by position.
  CHECK(estimate(teaching({"parallel.overlap_p2p=false"}))->times.stages == estimate(teaching())->times.stages);
}

TEST_CASE("times of stages: a stage is as slow as its slowest rank", "[graph][schedule]") {
  const Schedule schedule = *make_schedule("1f1b", {.ranks = 4, .microbatches = 8});
  const auto times = [&](const std::vector<std::string>& overrides) {
    return stage_times_in(teaching(overrides), schedule)->stages;
  };
  const std::vector<StageTime> even = times({});
  const std::vector<StageTime> slow = times({"perturb.slow_rank.1=3"});
  CHECK(slow[0] == even[0]);
  CHECK(slow[2] == even[2]);
  CHECK(static_cast<double>(slow[1].forward) == Approx(3.0 * static_cast<double>(even[1].forward)));
  CHECK(static_cast<double>(slow[1].backward_weight) == Approx(3.0 * static_cast<double>(even[1].backward_weight)));
  // 4 ranks of a tensor group, 2 pipeline ranks: the second is 4 to 7. Tensor communication is as quick as before.
  const Schedule two = *make_schedule("1f1b", {.ranks = 2, .microbatches = 8});
  const auto tensor = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"parallel.tp=4", "parallel.pp=2", "cluster.world_size=8"});
    return stage_times_in(teaching(overrides), two)->stages;
  };
  const std::vector<StageTime> plain = tensor({});
  const std::vector<StageTime> one_slow = tensor({"perturb.slow_rank.6=2"});
  CHECK(one_slow[0] == plain[0]);
  CHECK(one_slow[1].forward > plain[1].forward);
  CHECK(one_slow[1].forward < 2 * plain[1].forward);
  // An A100 computes at most a third as fast as an H100.
  const std::vector<StageTime> older = times({"perturb.gpus.3=a100"});
  CHECK(older[0] == even[0]);
  CHECK(older[3].forward > 2 * even[3].forward);
}

TEST_CASE("the bubble of the schedule alone has the slow ranks of the run", "[forecast][schedule]") {
  const Scenario slow = teaching({"perturb.slow_rank.1=3"});
  const Schedule schedule = *make_schedule("1f1b", {.ranks = 4, .microbatches = 8});
  const double even = *schedule_bubble(teaching(), schedule);
  CHECK(*schedule_bubble(slow, schedule) > even + 0.05);
}

TEST_CASE("schedules that are searched for are made for the times of the run", "[graph][schedule]") {
  const Scenario scenario = teaching({"parallel.pp_schedule=zb-auto-2p"});
  const Estimate timed = *estimate(scenario);
  const Plan plan = *make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  const ScheduleRequest request = timed_request(scenario.model, plan, timed.schedule, timed.times);
  CHECK(request.times == mean_rank_times(timed.schedule, timed.times));
  CHECK(request.times.forward > 1'000'000);  // picoseconds of a real forward
  CHECK(request.rank_times == timed.times.stages);
  CHECK(*make_schedule("zb-auto-2p", request) == timed.schedule);
}

TEST_CASE("schedules are searched with what the ranks keep of a micro-batch", "[graph][schedule]") {
  const Scenario scenario = teaching({"parallel.pp_schedule=zb-auto-2p"});
  const Plan plan = *make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  const Estimate timed = *estimate(scenario);
  const std::vector<RankBytes> bytes = timed_request(scenario.model, plan, timed.schedule, timed.times).rank_bytes;
  REQUIRE(bytes.size() == plan.stages.size());
  const auto count = [](Bytes size) { return static_cast<double>(size.count); };
  const auto left = [&](std::size_t rank) {
    return count(weight_gradient_bytes(scenario.model, plan, plan.stages[rank]));
  };
  for (std::size_t rank = 0; rank < bytes.size(); ++rank)
    CHECK(bytes[rank].forward == count(activation_bytes(scenario.model, plan, plan.stages[rank])));
  // Two 16-bit tensors of [b, s, h] that were received: of the first rank none.
  CHECK(bytes[0].weight == left(0));
  CHECK(bytes[1].weight == left(1) + 2.0 * 2 * static_cast<double>(plan.tokens() * scenario.model.hidden_size));
}

TEST_CASE("what a schedule cannot do is said in the words of the scenario", "[graph][schedule]") {
  CHECK(complaint({"parallel.pp_schedule=zb-v", "parallel.vpp=1"})
            .find("parallel.vpp = 1: zb-v has 2 chunks per rank (allowed: 2)") != std::string::npos);
  CHECK(complaint({"parallel.pp_schedule=dualpipe", "training.global_batch_size=6"})
            .find("training.global_batch_size = 6: makes 6 micro-batches; dualpipe needs an even number of at least 2 "
                  "x stages = 8") != std::string::npos);
  CHECK(complaint({"parallel.pp_schedule=1f1p"})
            .find("parallel.pp_schedule = 1f1p: unknown schedule (did you mean '1f1b'?") != std::string::npos);
}
