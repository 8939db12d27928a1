#include "sim/engine/gpu_sharing.hpp"

#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

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

/// The end of compute, with spans and without.
Duration compute_end(const StepGraph& graph) {
  const Profile gpu = gpu_of_132();
  const Timeline timeline = simulate(graph, {}, {.slowing_gpu = &gpu}).value();
  const Timeline traced = simulate(graph, {}, {.record_spans = true, .slowing_gpu = &gpu}).value();
  CHECK(timeline.ranks == traced.ranks);
  CHECK(timeline.ranks[0].compute == traced.spans[0].end - traced.spans[0].start);
  return traced.spans[0].end;
}

TEST_CASE("GPU sharing: compute hidden by a longer transfer runs at the remaining share", "[oracle][engine]") {
  // Half of the SMs: twice the time.
  CHECK(compute_end(two_streams(200_us, 1_ms)) == 400_us);
  // 800 MB in 1 ms, read once and written once, is 1.6 TB/s of 3.2: memory-bound work at half its speed.
  CHECK(compute_end(two_streams(200_us, 1_ms, OperatorKind::norm)) == 400_us);
  CHECK(compute_end(two_streams(200_us, Duration{})) == 200_us);
}

TEST_CASE("GPU sharing: a multiplication of one block for each SM loses tiles besides the SMs", "[oracle][engine]") {
  StepGraph graph = two_streams(200_us, 1_ms);
  graph.operators[0].cost.beside_collectives = 0.5;
  for (const Traffic told : {Traffic::tensor_parallel, Traffic::expert_parallel}) {
    graph.collectives[0].traffic = told;
    CHECK(compute_end(graph) == 400_us);  // the library knows how many SMs are left
  }
  for (const Traffic untold : {Traffic::gradients, Traffic::parameters, Traffic::context_parallel}) {
    graph.collectives[0].traffic = untold;
    CHECK(seconds(compute_end(graph)) == Approx(500e-6).epsilon(1e-5));  // 1 / (1 / 0.5 + 0.5) of its speed
  }
  graph.collectives[0].cost.channels = 0;
  CHECK(compute_end(graph) == 200_us);  // every block has its SM
  graph.collectives[0].cost.channels = 66;
  graph.operators[0].op.kind = OperatorKind::norm;
  CHECK(compute_end(graph) == 400_us);  // bandwidth alone
}

/// What is measured of one kind of operator beside blocks, and what the model says.
struct Beside {
  double worst = 0;  ///< relative
  double squares = 0;
  double sum = 0;
  int count = 0;

  void add(double modelled, double measured) {
    const double error = std::log(modelled / measured);
    worst = std::max(worst, std::abs(error));
    squares += error * error;
    sum += error;
    ++count;
  }
  double mean() const { return sum / count; }
  double root_mean_square() const { return std::sqrt(squares / count); }
};

TEST_CASE("GPU sharing: kernels of an H200 beside blocks that copy", "[oracle][engine][h200]") {
  // tools/gpu-checks --parts contention, 2026-11-27: driver 580.159.04, cuBLAS 13.1.0, cuDNN 9.19, PyTorch 2.11.
  const Result<CsvTable> table = CsvTable::read(source_dir() / "tests/data/h200_contention.csv");
  REQUIRE(table);
  const Profile gpu = shipped_profile("h200");
  const Costs costs(gpu);
  std::map<std::string, Beside> kinds;
  Beside without;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const auto number = [&](const char* column) { return table->number(row, column).value_or(0); };
    const std::string& kind = table->text(row, "kind");
    const double copied = 1e9 * number("reached_gb_per_s");
    Operator op;
    op.kind = kind == "gemm" ? OperatorKind::gemm : kind == "attention" ? OperatorKind::attention : OperatorKind::norm;
    CollectiveCost cost;
    cost.channels = static_cast<int>(number("blocks"));
    cost.duration = 1_s;
    double speed = speed_during(gpu, bound_of(op.kind), cost, Bytes{std::llround(copied)});
    const double measured = number("beside_us") / number("alone_us");
    if (op.kind != OperatorKind::gemm) {
      kinds[kind].add(1 / speed, measured);
      continue;
    }
    op.precision = Precision::bf16;
    op.shape = GemmShape{std::llround(number("m")), std::llround(number("n")), std::llround(number("k"))};
    const double tiles = number("m") * number("n") / (256 * 128);
    if (tiles < 2 * gpu.sms) continue;
    without.add(1 / speed, measured);
    const Speeds speeds{static_cast<std::int32_t>(std::lround(speed * kFullSpeed)), kFullSpeed, true};
    speed = static_cast<double>(speeds.of(use_of({op, costs.of(op)}))) / kFullSpeed;
    kinds[kind].add(1 / speed, measured);
  }
  for (const auto& [kind, all] : kinds) {
    INFO(kind << ": mean " << all.mean() << ", root mean square " << all.root_mean_square() << ", worst " << all.worst);
    CHECK(std::abs(all.mean()) < 0.02);
    CHECK(all.root_mean_square() < 0.06);
  }
  CHECK(kinds.size() == 3);
  CHECK(without.mean() < -0.12);
}

TEST_CASE("GPU sharing: compute longer than a transfer is slowed while the transfer moves", "[oracle][engine]") {
  // 0.4 ms at half speed do 0.2 ms of work, the other 0.8 ms follow.
  CHECK(compute_end(two_streams(1_ms, 400_us)) == 1200_us);
  // 20 s of work have more than 2^64 units.
  CHECK(compute_end(two_streams(20_s, 10_s)) == 25_s);
}

TEST_CASE("GPU sharing: a transfer that begins in the middle of an operation", "[oracle][engine]") {
  // The transfer waits for the first operation, and the second operation runs beside it from the middle on.
  StepGraph graph = two_streams(300_us, 400_us);
  std::vector<Op>& ops = graph.templates[0].ops;
  graph.local_events = 1;
  graph.streams.push_back({"other"});
  Op before = ops[1];
  before.stream = 2;
  before.duration = 100_us;
  before.records = {0, EventRef::kLocal};
  ops[0].waits = {before.records};
  ops.insert(ops.begin(), before);
  // 100 us at full speed, then 200 us of work at half speed: until 500 us, when the transfer ends too.
  CHECK(compute_end(graph) == 500_us);
  ops[1].duration = 300_us;  // until 400 us: 150 us of work at half speed, then 50 us
  CHECK(compute_end(graph) == 450_us);
  // 1 ps of work at two thirds of the speed takes 1.5 ps, rounded up.
  graph.collectives[0].cost.channels = 44;
  ops[2].duration = Duration{100'000'001};
  CHECK(compute_end(graph) == Duration{100'000'002});
}

TEST_CASE("GPU sharing: of two transfers the one that takes more counts", "[oracle][engine]") {
  StepGraph graph = two_streams(1_ms, 400_us);
  graph.streams.push_back({"tp"});
  graph.collectives.push_back(graph.collectives[0]);
  graph.collectives[1].slot = 1;
  graph.collectives[1].cost.channels = 33;
  graph.ranks[0].communicators = {0, 1};
  graph.communicators.push_back(graph.communicators[0]);
  Op other = graph.templates[0].ops[0];
  other.stream = 2;
  other.payload = 1;
  other.duration = 800_us;
  graph.templates[0].ops.push_back(other);
  // 0.4 ms at 1/2 and 0.4 ms at 3/4 do 0.5 ms of work.
  CHECK(compute_end(graph) == 1300_us);
}

TEST_CASE("GPU sharing: a slow rank's work is its slowed duration", "[oracle][engine]") {
  StepGraph graph = two_streams(200_us, 400_us);
  graph.ranks[0].slowdown = 2 * kNoSlowdown;
  CHECK(compute_end(graph) == 600_us);  // 200 of 400 us of work in the first 400 us
}

TEST_CASE("GPU sharing: Galvatron's 1.126 on A100", "[oracle][engine]") {
  Profile a100;
  a100.sms = 108;
  CollectiveCost cost;
  cost.channels = 12;
  CHECK(1 / speed_during(a100, Bound::compute, cost, 1_GiB) == Approx(1.126).epsilon(0.002));
  cost.channels = 200;
  CHECK(speed_during(a100, Bound::compute, cost, 1_GiB) == Approx(0.1));
}

TEST_CASE("GPU sharing: a step whose transfers slow its compute", "[metamorphic][engine]") {
  Scenario scenario = test::small_scenario(1, 2, 8);
  scenario.profile.host = {};  // else launches hide what kernels lose
  scenario.parallel.overlap_grad_reduce = true;
  scenario.parallel.ddp_bucket_size = 1'000'000;  // leaves while the backward goes on
  const auto step = [&](bool slowed, bool unfold) {
    return forecast(scenario, {.unfold = unfold, .transfers_slow_compute = slowed})->timeline;
  };
  const Timeline folded = step(true, false);
  CHECK(folded.step_time.picoseconds > step(false, false).step_time.picoseconds);
  CHECK(folded.step_time == step(true, true).step_time);
  CHECK(folded.spans.empty());
  const auto with_waves = [&](double waves, bool margin) {
    Scenario other = scenario;
    other.profile.gemm_extra_waves = waves;
    other.training.sm_margin = margin;
    return forecast(other)->timeline.step_time;
  };
  CHECK(with_waves(1.5, false) > with_waves(0, false));
  CHECK(with_waves(1.5, true) == with_waves(0, false));
  scenario.profile.sms *= 1000;
  scenario.profile.memory_bandwidth *= 1000;
  const double fast = seconds(step(true, false).step_time);
  CHECK(fast == Approx(seconds(step(false, false).step_time)).epsilon(0.001));
}

}  // namespace
