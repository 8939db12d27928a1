// Requirements on 3D layouts, placement and software stacks.

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/layer.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

std::int64_t calls(const ForecastRun& result, Traffic traffic) {
  std::int64_t sum = 0;
  for (const TrafficCount& each : count_traffic(result.graph, 0))
    if (each.traffic == traffic) sum += each.calls;
  return sum;
}

std::vector<int> numbers(int count, int first, int step) {
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(first + i * step);
  return list;
}

}  // namespace

TEST_CASE("pipeline parallelism divides the memory and has a bubble", "[row-0-5][requirements][graph][memory]") {
  const Forecast one = run(small_scenario(1, 1, 1)).forecast;
  const Forecast four = run(small_scenario(1, 4, 1)).forecast;
  const auto states = [](const MemoryByKind& m) { return m.weights + m.gradients + m.optimizer; };
  // A quarter of the layers; the ends of the model hold the embedding and the output layer besides.
  CHECK(states(four.memory[1]).count * 4 < states(one.memory[0]).count);
  CHECK(states(four.memory[0]).count * 3 < states(one.memory[0]).count);
  CHECK(four.bubble_fraction == Approx(3.0 / 11).epsilon(0.2));  // 8 micro-batches, stages nearly alike
  CHECK(one.bubble_fraction == 0);
}

TEST_CASE("every division of 16 ranks into tp x pp x dp runs, with and without FSDP",
          "[row-0-6][row-3-1][row-4-25][requirements][graph]") {
  for (const int tp : {1, 2, 4, 8})
    for (int pp = 1; tp * pp <= 8; pp *= 2)
      for (const int zero_stage : {0, 1, 3}) {
        CAPTURE(tp, pp, zero_stage);
        Scenario scenario = small_scenario(tp, pp, 16 / (tp * pp));
        scenario.parallel.zero_stage = zero_stage;
        const ForecastRun result = run(scenario);
        CHECK(result.forecast.ranks == 16);
        // Sub-communicators on three axes, each only where the axis is longer than one.
        CHECK((calls(result, Traffic::tensor_parallel) > 0) == (tp > 1));
        CHECK((calls(result, Traffic::pipeline) > 0) == (pp > 1));
        CHECK(calls(result, Traffic::gradients) > 0);
        CHECK((calls(result, Traffic::parameters) > 0) == (zero_stage > 0));
      }
}

TEST_CASE("the groups of three axes are those of the order, for every permutation",
          "[row-1-33][requirements][plan][oracle]") {
  // 2 x 3 x 4 ranks: along an axis, ranks lie as far apart as the sizes of the faster axes multiply to.
  const std::array<std::pair<Axis, int>, 3> sizes{{{Axis::tp, 2}, {Axis::dp, 3}, {Axis::pp, 4}}};
  std::array<int, 3> order{0, 1, 2};
  do {
    std::array<Axis, kAxes> axes{Axis::cp, Axis::cp, Axis::cp, Axis::cp};
    for (std::size_t i = 0; i < 3; ++i) axes[i] = sizes[static_cast<std::size_t>(order[i])].first;
    const RankGrid grid({2, 1, 3, 4}, axes);
    int stride = 1;
    for (const int i : order) {
      const auto [axis, size] = sizes[static_cast<std::size_t>(i)];
      CHECK(grid.stride(axis) == stride);
      CHECK(grid.group(0, {axis}) == numbers(size, 0, stride));
      stride *= size;
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a mesh of (4 DP, 8 TP): a TP group is a node, DP groups are strided by 8",
          "[row-3-40][requirements][plan][oracle]") {
  const Plan plan =
      make_plan(small_scenario(8, 1, 4).model, small_scenario(8, 1, 4).parallel, small_scenario(8, 1, 4).training, 32)
          .value();
  for (int node = 0; node < 4; ++node) CHECK(plan.grid.group(8 * node + 5, {Axis::tp}) == numbers(8, 8 * node, 1));
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(plan.grid.group(16 + gpu, {Axis::dp}) == numbers(4, gpu, 8));
  const Cluster cluster = small_scenario(8, 1, 4).cluster;
  CHECK(place(cluster, numbers(8, 8, 1), 1).nodes == 1);
  CHECK(place(cluster, numbers(4, 3, 8), 1).nodes == 4);
}

TEST_CASE("TP in a node, PP in a rack, DP across racks, against DP inside the rack",
          "[row-1-34][requirements][network]") {
  // Racks of four nodes under a network that is eight times narrower above them. Stages exchange activations for every
  // micro-batch, replicas gradients once: with long sequences and few parameters the stages should be the near ones.
  Scenario scenario = small_scenario(8, 4, 4);
  scenario.training.seq_length = 8192;
  scenario.training.micro_batch_size = 4;
  scenario.training.global_batch_size = 4 * 4 * 16;
  scenario.parallel.overlap_p2p = false;
  for (std::size_t i = 0; i < scenario.cluster.tiers.size(); ++i)
    scenario.cluster.tiers[i].nodes = i == 0 ? 4 : scenario.cluster.tiers[i].nodes;
  scenario.cluster.tiers.resize(2);
  scenario.cluster.tiers[1].oversubscription = 8;
  scenario.parallel.rank_order = "tp-cp-ep-pp-dp";
  const Forecast near_stages = run(scenario).forecast;
  scenario.parallel.rank_order = "tp-cp-ep-dp-pp";
  const Forecast near_replicas = run(scenario).forecast;
  CHECK(exposed(near_stages, Traffic::pipeline) < exposed(near_replicas, Traffic::pipeline));
  CHECK(near_stages.step_time_s < near_replicas.step_time_s);
}

TEST_CASE("PP cuts between layers, TP inside layers", "[row-2-7][requirements][plan][graph]") {
  const auto plan_of = [](int tp, int pp) {
    const Scenario s = small_scenario(tp, pp, 1);
    return make_plan(s.model, s.parallel, s.training, tp * pp).value();
  };
  const Model model = small_scenario(1, 1, 1).model;
  const Plan whole = plan_of(1, 1);
  const Plan stages = plan_of(1, 4);
  const Plan tensors = plan_of(4, 1);
  CHECK(whole.stages[0].num_layers == 8);
  for (const Stage& stage : stages.stages) CHECK(stage.num_layers == 2);
  CHECK(tensors.stages == whole.stages);
  const auto shapes = [&model](const Plan& plan) {
    std::vector<std::int64_t> widths;  // of the matrices of one layer
    for (const Work& work : LayerWork(model, plan).forward(0))
      if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::gemm) {
        const auto& shape = std::get<GemmShape>(work.op.shape);
        widths.push_back(shape.n * shape.k);
      }
    return widths;
  };
  CHECK(shapes(stages) == shapes(whole));
  std::vector<std::int64_t> quarter = shapes(whole);
  for (std::int64_t& width : quarter) width /= 4;
  CHECK(shapes(tensors) == quarter);
}

TEST_CASE("q, k, v and ffn.0 by columns, o and ffn.2 by rows", "[row-4-16][requirements][graph][oracle]") {
  const Scenario s = small_scenario(4, 1, 1);
  const Plan plan = make_plan(s.model, s.parallel, s.training, 4).value();
  const auto gemm = [&](const std::string& name) {
    for (const Work& work : LayerWork(s.model, plan).forward(0))
      if (work.kind == Work::Kind::compute && work.op.kind == OperatorKind::gemm && work.op.name == name)
        return std::get<GemmShape>(work.op.shape);
    return GemmShape{};
  };
  // h 1024, 16 heads and 8 key/value heads of 64, f 4096 twice (gated), 1024 tokens, t 4.
  CHECK(gemm("qkv") == GemmShape{1024, (16 + 2 * 8) * 64 / 4, 1024, 1, false});
  CHECK(gemm("proj") == GemmShape{1024, 1024, 16 * 64 / 4, 1, false});
  CHECK(gemm("fc1") == GemmShape{1024, 2 * 4096 / 4, 1024, 1, false});
  CHECK(gemm("fc2") == GemmShape{1024, 1024, 4096 / 4, 1, false});
}

TEST_CASE("stages on different P5 nodes talk through EFA, with its latency", "[row-3-34][requirements][network]") {
  Scenario scenario = small_scenario(8, 2, 1);
  scenario.cluster = shipped_scenario("p5-llama2-13b-16").cluster;
  scenario.cluster.world_size = 16;
  scenario.parallel.overlap_p2p = false;
  const GroupPlacement pair = place(scenario.cluster, numbers(2, 0, 8), 1);
  CHECK(pair.nodes == 2);
  const ForecastRun fast = run(scenario);
  for (const Message& message : fast.graph.messages) CHECK(message.cost.duration > Duration{});
  const double before = fast.forecast.step_time_s;
  CollectiveTuning& tuning = scenario.cluster.tuning;
  tuning.net_latency_us += 1000 / tuning.net_ll_latency;  // a millisecond for each message
  // The first activations' hop and the last gradients' are in the way whatever the order between them.
  const ForecastRun late = run(scenario);
  CHECK(late.forecast.step_time_s > before + 1.99e-3);
  REQUIRE(late.graph.messages.size() == fast.graph.messages.size());
  for (std::size_t i = 0; i < fast.graph.messages.size(); ++i)
    CHECK(seconds(late.graph.messages[i].cost.duration - fast.graph.messages[i].cost.duration) == Approx(1e-3));
}

TEST_CASE("Megatron-DeepSpeed is Megatron's tp and pp with ZeRO-1, and its stack no more than its keys",
          "[row-0-13][row-2-11][requirements][io]") {
  const std::string unfused = "training.flash_attention=false";  // the scenario says otherwise
  const std::string alike = "cluster.gpu_spread=0";              // the host's time as it is written below
  Scenario composed = shipped_scenario(
      "llm-jp-13b-mdx", {unfused, alike, "parallel.scatter_gather_p2p=true", "parallel.keep_stage_outputs=true",
                         "parallel.tp_async_allreduce=false", "training.keep_16bit_gradients=true"});
  composed.profile.host.launch = 84e-6 * composed.profile.in_training.slowest_gpu;
  const Scenario preset = shipped_scenario("llm-jp-13b-mdx", {unfused, alike, "stack=megatron-deepspeed"});
  CHECK(preset.parallel.zero_stage == 1);
  CHECK(preset.parallel == composed.parallel);
  CHECK(preset.training == composed.training);
  CHECK(run(preset).forecast.step_time_s == run(composed).forecast.step_time_s);
}

TEST_CASE("Megatron's order, buckets and distributed optimizer", "[row-2-8][requirements][graph]") {
  Scenario scenario = small_scenario(1, 1, 8);
  scenario.model.num_layers = 24;
  scenario.parallel.zero_stage = 1;
  CHECK(scenario.parallel.rank_order == "tp-cp-ep-dp-pp");
  const ForecastRun result = run(scenario);
  const std::int64_t n = parameter_count(scenario.model).total();
  // max(40e6, 1e6 D) elements to a bucket; a gradient joins as a whole matrix of 8.4 million at most.
  const TrafficCount reduced = total_of(count_traffic(result.graph, 0), Traffic::gradients, Collective::reduce_scatter);
  CHECK(reduced.calls >= n / 48'400'000);
  CHECK(reduced.calls <= n / 40'000'000 + 1);
  CHECK(reduced.size == Bytes{4 * n});
}

TEST_CASE("128 samples are four steps of 32 or two of 64", "[row-4-4][requirements][plan][oracle]") {
  const auto steps = [](std::int64_t batch) {
    Scenario scenario = small_scenario(1, 1, 4);
    scenario.training.global_batch_size = batch;
    return 128.0 * static_cast<double>(scenario.training.seq_length) / run(scenario).forecast.tokens_per_step;
  };
  CHECK(steps(32) == 4);
  CHECK(steps(64) == 2);
}

TEST_CASE("gradients are averaged once per step, whatever the number of GPUs", "[row-4-6][requirements][graph]") {
  const auto reductions = [](int dp) {
    const TrafficCount all =
        total_of(count_traffic(run(small_scenario(1, 1, dp)).graph, 0), Traffic::gradients, Collective::all_reduce);
    return std::pair(all.calls, all.size.count);
  };
  CHECK(reductions(2) == reductions(4));
  CHECK(reductions(8).second == 4 * parameter_count(small_scenario(1, 1, 8).model).total());
}

TEST_CASE("higher ZeRO stages hold less and send more; none has a bubble",
          "[row-4-26][row-4-30][row-4-31][row-4-32][requirements][graph][memory]") {
  // One micro-batch on a slow network, where nothing is hidden. Units of the weights' bytes with 16-bit gradients:
  // all-reduce 2, reduce-scatter and gather 1 each.
  std::vector<double> units;
  std::vector<double> times;
  std::vector<Bytes> states;
  for (const int stage : {0, 1, 2, 3}) {
    Scenario scenario = small_scenario(1, 1, 16);
    scenario.training.global_batch_size = 16;
    scenario.training.grad_reduce_dtype = Precision::bf16;
    scenario.parallel.zero_stage = stage;
    scenario.parallel.reshard_root = true;
    scenario.parallel.overlap_param_gather = false;
    scenario.cluster.node.nic_rate.bytes_per_second /= 100;
    const ForecastRun result = run(scenario);
    double sent = 0;
    for (const TrafficCount& each : count_traffic(result.graph, 0))
      if (each.traffic == Traffic::gradients || each.traffic == Traffic::parameters) sent += each.sent;
    units.push_back(sent / (2.0 * static_cast<double>(parameter_count(scenario.model).total()) * 15 / 16));
    times.push_back(result.forecast.step_time_s);
    const MemoryByKind& m = result.forecast.memory[0];
    states.push_back(m.weights + m.gradients + m.optimizer);
    CHECK(result.forecast.bubble_fraction == 0);
  }
  CHECK(units[0] == Approx(2));
  CHECK(units[1] == Approx(2));
  CHECK(units[2] == Approx(2));
  CHECK(units[3] == Approx(3));
  // Three units take half as long again as two where nothing else counts. Only stage 0's all-reduce runs in the backward.
  CHECK(times[3] / times[2] == Approx(1.5).epsilon(0.1));
  CHECK(times[0] < times[1]);
  CHECK(times[2] == Approx(times[1]).epsilon(0.05));
  for (std::size_t stage = 1; stage < 4; ++stage) CHECK(states[stage] < states[stage - 1]);
}
