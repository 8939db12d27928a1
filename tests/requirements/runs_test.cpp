// Requirements on the time of runs: layouts, exchanges, bubbles.
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/schedule_runs.hpp"
#include "sim/graph/layer.hpp"
#include "tests/requirements/model_states_gb.hpp"
#include "tests/requirements/predicted.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("data parallelism reduces each gradient once, and leaves the memory of a rank as it is",
          "[row-0-3][row-4-3][requirements][graph][memory]") {
  const auto with = [](int dp) {
    Scenario scenario = small_scenario(1, 1, dp);
    scenario.training.global_batch_size = 32;
    return forecast(scenario).value();
  };
  const auto size = 4.0 * static_cast<double>(parameter_count(small_scenario(1, 1, 1).model).total());
  const ForecastRun one = with(1);
  double before = one.forecast.step_time_s;
  for (const int dp : {2, 4, 8}) {
    const ForecastRun run = with(dp);
    // 2 (D-1)/D S sent by each rank: every fp32 gradient once in a step, however many micro-batches there are.
    const TrafficCount sent = total_of(count_traffic(run.graph, 0), Traffic::gradients, Collective::all_reduce);
    CHECK(static_cast<double>(sent.size.count) == size);
    CHECK(sent.sent == Approx(2.0 * (dp - 1) / dp * size));
    // The memory of a rank stays, and the time of the same batch falls.
    CHECK(run.forecast.memory == one.forecast.memory);
    CHECK(run.forecast.step_time_s < before);
    before = run.forecast.step_time_s;
  }
}

TEST_CASE("tensor parallelism over eight GPUs of two nodes is slower than in one",
          "[row-0-4][row-3-27][requirements][network]") {
  const std::vector<std::string> one_node = {"parallel.tp=8", "parallel.dp=1", "cluster.world_size=8"};
  const double inside = predicted("tensor-parallel", one_node).step_time_s;
  const Forecast across = predicted("tensor-parallel-across-nodes");
  CHECK(exposed(across, Traffic::tensor_parallel) > 0);
  // The same 8 ranks with 4 to a node.
  Scenario scenario = shipped_scenario("tensor-parallel", one_node);
  scenario.cluster.node.gpus = scenario.cluster.node.gpus_per_host = scenario.cluster.node.nics = 4;
  CHECK(forecast(scenario).value().forecast.step_time_s > inside);
}

TEST_CASE("70B on four P5 nodes: TP 16 over two nodes is much slower than TP 8 in one",
          "[row-3-27][requirements][network]") {
  const auto with = [](int tp) {
    return predicted("p5-llama3-70b-32", {fmt::format("parallel.tp={}", tp), fmt::format("parallel.dp={}", 32 / tp)});
  };
  const Forecast sixteen = with(16);
  const Forecast eight = with(8);
  CHECK(sixteen.step_time_s > 1.2 * eight.step_time_s);
  CHECK(exposed(sixteen, Traffic::tensor_parallel) > 3 * exposed(eight, Traffic::tensor_parallel));
}

TEST_CASE("beyond a node, more tensor parallelism exposes more communication", "[row-0-14][requirements][network]") {
  const auto share = [](int tp, int pp) {
    const Forecast f = predicted(
        "llama2-70b-abci", {"parallel.tp=" + std::to_string(tp), "parallel.pp=" + std::to_string(pp), "parallel.dp=4"});
    return all_exposed(f) / f.step_time_s;
  };
  const double node = share(8, 8);
  const double two_nodes = share(16, 4);
  const double four_nodes = share(32, 2);
  CHECK(two_nodes > node);
  CHECK(four_nodes > two_nodes);
  Scenario slow = shipped_scenario("llama2-70b-abci", {"parallel.overlap_p2p=false"});
  const double before = exposed(forecast(slow).value().forecast, Traffic::pipeline);
  slow.cluster.node.nic_rate.bytes_per_second /= 8;
  CHECK(exposed(forecast(slow).value().forecast, Traffic::pipeline) > before);
}

TEST_CASE("data parallelism over A100 and V100 is as slow as over V100 alone", "[row-1-13][requirements]") {
  const auto step = [](const std::string& v100_ranks) {
    std::vector<std::string> set = {"cluster.topology=abci-a", "training.dtype=fp16"};
    if (!v100_ranks.empty()) set.push_back("perturb.gpus={\"" + v100_ranks + "\": \"v100\"}");
    return forecast(shipped_scenario("data-parallel-gpt2", set)).value().forecast.step_time_s;
  };
  CHECK(step("2-3") == Approx(step("0-3")).epsilon(0.02));
  CHECK(step("2-3") > 1.5 * step(""));
}

TEST_CASE("the chain rule: a dgrad and a wgrad for every matrix, dgrads in reverse",
          "[row-1-14][requirements][graph]") {
  const Model model = llama(2, 512, 2048, 8, 8, 32000);
  Training training = sixteen_bytes();
  const Plan plan = make_plan(model, {}, training, 1).value();
  const LayerWork work(model, plan);
  const auto names = [](const WorkList& list, Pass pass) {
    std::vector<std::string> found;
    for (const Work& each : list)
      if (each.kind == Work::Kind::compute && each.op.kind == OperatorKind::gemm && each.op.pass == pass)
        found.push_back(each.op.name);
    return found;
  };
  CHECK(names(work.forward(0), Pass::forward) == std::vector<std::string>{"qkv", "proj", "fc1", "fc2"});
  const WorkList backward = work.backward(0, BackwardPart::all, false);
  CHECK(names(backward, Pass::dgrad) == std::vector<std::string>{"fc2", "fc1", "proj", "qkv"});
  CHECK(names(backward, Pass::wgrad) == std::vector<std::string>{"fc2", "fc1", "proj", "qkv"});
  // Off the chain: input gradients can be had without any weight gradient.
  CHECK(names(work.backward(0, BackwardPart::input_gradients, false), Pass::wgrad).empty());
}

TEST_CASE("overlapping tensor parallelism changes what is exposed, not what is computed",
          "[row-1-20][requirements][graph]") {
  const std::vector<std::string> split = {"parallel.tp=8", "parallel.sequence_parallel=true", "parallel.dp=1",
                                          "cluster.world_size=8"};
  std::vector<std::string> overlapped = split;
  overlapped.emplace_back("parallel.tp_comm_overlap=true");
  const Forecast plain = predicted("tensor-parallel", split);
  const Forecast tiled = predicted("tensor-parallel", overlapped);
  CHECK(exposed(tiled, Traffic::tensor_parallel) < exposed(plain, Traffic::tensor_parallel));
  CHECK(tiled.compute_s == plain.compute_s);
}

TEST_CASE("one all-reduce per block and direction", "[row-1-32][row-3-19][row-3-20][row-4-15][requirements][graph]") {
  const Model model = llama(2, 512, 2048, 8, 8, 32000);
  const Parallel parallel{.tp = 4};
  const Plan plan = make_plan(model, parallel, sixteen_bytes(), 4).value();
  const LayerWork work(model, plan);
  const auto reductions = [](const WorkList& list) {
    int count = 0;
    for (const Work& each : list)
      count += (each.kind == Work::Kind::collective || each.kind == Work::Kind::start) &&
                       each.call.collective == Collective::all_reduce
                   ? 1
                   : 0;
    return count;
  };
  CHECK(reductions(work.forward(0)) == 2);  // attention and MLP
  CHECK(reductions(work.backward(0, BackwardPart::all, false)) == 2);
}

TEST_CASE("four GPUs in one node are faster than two and two", "[row-4-2][requirements][network]") {
  Scenario scenario = small_scenario(1, 1, 4);
  const double one_node = forecast(scenario).value().forecast.step_time_s;
  scenario.cluster.node.gpus = scenario.cluster.node.gpus_per_host = scenario.cluster.node.nics = 2;
  CHECK(scenario.cluster.nodes() == 2);
  CHECK(forecast(scenario).value().forecast.step_time_s > one_node);
}

TEST_CASE("tensor parallelism makes the small translation model slower on four PCIe GPUs, and it is the all-reduces",
          "[row-4-17][requirements][network]") {
  // Encoder layers reduce twice each way, decoder layers three times, 64 x 128 x 512 fp32 activations: 60 all-reduces of
  // 16.8 MB, 1.5 times that on each wire. The GPU itself has little to do for hidden 512.
  const Scenario four = shipped_scenario("translation-tp-4");
  const std::vector<std::string> one_gpu{"cluster.world_size=1", "parallel.tp=1"};
  const std::vector<std::string> nvlink{"cluster.topology=dgx-h100"};
  const Forecast slow = predicted("translation-tp-4");
  const Forecast one = predicted("translation-tp-4", one_gpu);
  CHECK(slow.step_time_s > 1.3 * one.step_time_s);
  CHECK(exposed(slow, Traffic::tensor_parallel) > 0.6 * slow.step_time_s);
  std::int64_t bytes = 0;
  for (const TrafficCount& each : count_traffic(forecast(four).value().graph, 0))
    if (each.traffic == Traffic::tensor_parallel && each.collective == Collective::all_reduce) bytes += each.size.count;
  const std::int64_t message = std::int64_t{64} * 128 * 512 * 4;
  // 60 in the layers; 9 of the embeddings, of the output layer and of the encoder's result, which six layers attend to.
  CHECK(bytes >= 69 * message);
  CHECK(bytes < 70 * message);
  // Without those waits the step would be shorter than that of one GPU. With NVLink they are short.
  CHECK(slow.step_time_s - exposed(slow, Traffic::tensor_parallel) < one.step_time_s);
  CHECK(predicted("translation-tp-4", nvlink).step_time_s <
        predicted("translation-tp-4", {"cluster.topology=dgx-h100", "cluster.world_size=1", "parallel.tp=1"})
            .step_time_s);
  // Per sample it is slower still: data parallelism over the same GPUs does four batches in one step.
  const double ddp = predicted("translation-ddp-4", {"cluster.topology=rtx-pro-6000-pcie"}).tokens_per_s;
  CHECK(slow.tokens_per_s < 0.2 * ddp);
}

TEST_CASE("one micro-batch through four stages: 75 % of forward and backward is bubble, in schedule and predict",
          "[row-4-20][requirements][report]") {
  const Scenario scenario = shipped_scenario("pipeline-naive");
  ForecastRun run = forecast(scenario).value();
  const double alone = schedule_bubble(scenario, run.schedule).value();
  CHECK(alone == Approx(0.75).epsilon(1e-9));
  CHECK(run_schedule(run.schedule, uniform_times(run.schedule, {})).value().bubble_fraction == Approx(0.75));
  run.forecast.schedule_bubble = alone;
  CHECK(page_of(scenario, run).find("the schedule alone, without host and messages: 75.0 % bubble") !=
        std::string::npos);
}
