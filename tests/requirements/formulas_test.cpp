// Formulas of the guides that the requirements come from: what holds, and what the tool gives where one does not.
#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/layer.hpp"
#include "sim/io/files.hpp"
#include "sim/plan/memory.hpp"
#include "sim/search/guideline.hpp"
#include "tests/graph/layers.hpp"
#include "tests/support/models.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Training training_of(std::int64_t sequence, std::int64_t micro_batch) {
  return {.seq_length = sequence, .micro_batch_size = micro_batch, .global_batch_size = micro_batch};
}

Plan plan_of(const Model& model, int tp, bool sequence_parallel, const Training& training) {
  const Parallel parallel{.tp = tp, .sequence_parallel = sequence_parallel};
  return make_plan(model, parallel, training, tp).value();
}

double step_time(const Scenario& scenario) { return forecast(scenario).value().forecast.step_time_s; }

}  // namespace

TEST_CASE("full recomputation repeats the forward, and both kinds of FLOPs are reported",
          "[row-0-29][requirements][memory]") {
  Scenario scenario = small_scenario(1, 1, 1);
  const Forecast none = forecast(scenario).value().forecast;
  scenario.training.recompute = Recompute::selective;
  const Forecast selective = forecast(scenario).value().forecast;
  scenario.training.recompute = Recompute::full;
  const Forecast full = forecast(scenario).value().forecast;
  CHECK(full.memory.front().activations < selective.memory.front().activations);
  CHECK(selective.memory.front().activations <= none.memory.front().activations);
  CHECK(none.hfu == Approx(none.mfu));
  CHECK(full.hfu > full.mfu);
  // A fourth pass through the layers, without the output layer.
  CHECK(full.hfu / full.mfu > 1.25);
  CHECK(full.hfu / full.mfu < 4.0 / 3 + 1e-9);
}

TEST_CASE("a larger micro-batch uses the GPU better, up to the memory", "[row-1-21][requirements][cost]") {
  double before = 0;
  for (const int micro_batch : {1, 2, 4, 8}) {
    Scenario scenario = small_scenario(1, 1, 1);
    scenario.training.micro_batch_size = micro_batch;
    const double per_gpu = forecast(scenario).value().forecast.tokens_per_s;
    CHECK(per_gpu > before);
    before = per_gpu;
  }
}

TEST_CASE("16 bytes per element of activations are half of what a layer keeps",
          "[row-3-9][requirements][memory][oracle]") {
  // The rule: batch 8 x sequence 4096 x hidden 8192 x 80 layers x 16 bytes.
  CHECK(activation_rule_gb(8, 4096, 8192, 80) == Approx(343.6).margin(0.05));
  // A GPT of that size with flash attention keeps 34 bytes (docs/references.md#activation-bytes), and 4 bytes of
  // log-sum-exp per head.
  const Model model = gpt(80, 8192, 64, 51200, 4096);
  const Training training = training_of(4096, 8);
  const double layer = static_cast<double>(layer_activation_bytes(model, plan_of(model, 1, false, training), 0).count);
  const double log_sum_exp = 4.0 * 64 * 8 * 4096;
  CHECK((layer - log_sum_exp) * 80 * 1e-9 == Approx(730.1).margin(0.05));
}

TEST_CASE("one message of tensor parallelism, and what a layer sends", "[row-3-23][requirements][graph][oracle]") {
  const Model model = llama3_70b();
  const Plan plan = plan_of(model, 8, false, training_of(4096, 8));
  double message = 0;
  double wire = 0;
  const LayerWork work(model, plan);
  for (const WorkList& list : {work.forward(0), work.backward(0, BackwardPart::all, false)})
    for (const Work& each : list)
      if (each.call.collective == Collective::all_reduce && each.call.size.count > 0) {
        message = static_cast<double>(each.call.size.count);
        wire += 2 * 7.0 / 8 * message;
      }
  CHECK(message == 536'870'912);                             // the seed's volume per layer
  CHECK(80 * message * 1e-9 == Approx(42.95).margin(0.01));  // and of 80 layers
  CHECK(80 * wire * 1e-9 == Approx(300.6).margin(0.1));      // four all-reduces, on the wire
}

TEST_CASE("NVLink 4.0's 900 GB/s are 450 in each direction", "[row-3-24][requirements][network]") {
  CHECK(shipped_topology("dgx-h100").node.gpu_link.bytes_per_second == 450'000'000'000);
  CHECK(shipped_topology("aws-p5").node.gpu_link.bytes_per_second == 450'000'000'000);
}

TEST_CASE("67 MB per micro-batch between stages", "[row-3-33][requirements][graph][oracle]") {
  Scenario scenario = small_scenario(1, 2, 1);
  scenario.model = llama3_70b();
  scenario.training.seq_length = 4096;
  scenario.training.global_batch_size = 8;
  const ForecastRun run = forecast(scenario).value();
  REQUIRE(!run.graph.messages.empty());
  for (const Message& message : run.graph.messages) CHECK(message.size.count == 67'108'864);
  // Eight micro-batches: 536.9 MB forward by the first stage, as much backward by the second.
  for (const std::size_t stage : {0U, 1U}) {
    const TrafficCount sent = total_of(count_traffic(run.graph, stage), Traffic::pipeline, Collective::send_recv);
    CHECK(sent.calls == 8);
    CHECK(sent.size == Bytes{536'870'912});
  }
}

TEST_CASE("smaller micro-batches shrink the bubble and cost efficiency",
          "[row-3-31][row-3-37][row-4-21][row-4-23][requirements][cost]") {
  std::vector<double> bubbles;
  std::vector<double> times;
  for (const int micro_batch : {8, 4, 2, 1}) {
    Scenario scenario = small_scenario(1, 4, 1);
    scenario.training.global_batch_size = 32;
    scenario.training.micro_batch_size = micro_batch;
    scenario.training.cuda_graphs = true;  // launches of the small model would hide the bubble
    const Forecast f = forecast(scenario).value().forecast;
    bubbles.push_back(f.bubble_fraction * f.step_time_s);
    times.push_back(f.compute_s.at("gemm"));
  }
  // Four to thirty-two micro-batches of the same work, and a bubble that is three of them long.
  CHECK(std::is_sorted(bubbles.rbegin(), bubbles.rend()));
  CHECK(bubbles.front() > 3 * bubbles.back());
  CHECK(std::is_sorted(times.begin(), times.end()));
  CAPTURE(times);
  CHECK(times.back() > 1.1 * times.front());
}

TEST_CASE("two nodes of two GPUs: node 1 has ranks 2 and 3", "[row-4-1][requirements][network]") {
  Cluster cluster = shipped_topology("dgx-h100");
  cluster.node.gpus = cluster.node.gpus_per_host = cluster.node.nics = 2;
  cluster.world_size = 4;
  CHECK(cluster.nodes() == 2);
  CHECK(cluster.node_of(1) == 0);
  CHECK(cluster.node_of(2) == 1);
  CHECK(cluster.node_of(3) == 1);
}

TEST_CASE("tensor parallelism on a tiny model is no faster", "[row-4-17][requirements][network]") {
  Scenario scenario = small_scenario(1, 1, 1);
  scenario.model.hidden_size = 512;
  scenario.model.num_attention_heads = 8;
  scenario.model.ffn_hidden_size = 512;
  scenario.training.seq_length = 128;
  const double one = step_time(scenario);
  scenario.parallel.tp = 4;
  scenario.parallel.sequence_parallel = true;
  scenario.cluster.world_size = 4;
  CHECK(step_time(scenario) > 0.9 * one);
}

TEST_CASE("sequence parallelism and a loss over the divided vocabulary", "[row-4-18][requirements][graph][oracle]") {
  const Model model = llama3_70b();
  const Plan plan = plan_of(model, 8, true, training_of(8192, 1));
  const LayerWork work(model, plan);
  const WorkList forward = work.forward(0);
  const WorkList backward = work.backward(0, BackwardPart::all, false);
  // 10 (t-1)/t messages: gathers and reduce-scatters, four forward and six backward.
  CHECK(calls_of(forward)[Collective::all_gather] + calls_of(forward)[Collective::reduce_scatter] == 4);
  CHECK(calls_of(backward)[Collective::all_gather] + calls_of(backward)[Collective::reduce_scatter] == 6);
  // Maximum, target logit, sum of exponentials.
  CHECK(calls_of(work.head_forward())[Collective::all_reduce] == 3);
}
