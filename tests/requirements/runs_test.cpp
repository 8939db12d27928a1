// Requirements on runs, machines and formulas.
#include <algorithm>
#include <numeric>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/schedule_runs.hpp"
#include "sim/forecast/settings_text.hpp"
#include "sim/graph/layer.hpp"
#include "sim/io/files.hpp"
#include "sim/network/bisection.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "sim/report/terminal.hpp"
#include "tests/graph/small_scenario.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

Forecast predicted(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const Result<ForecastRun> run = forecast(shipped_scenario(name, overrides));
  if (!run) FAIL(to_string(run.error()));
  return run->forecast;
}

Model model_of(const std::string& name) {
  return read_model(shipped_data().scenarios / "models" / (name + ".json")).value();
}
Cluster machine(const std::string& name) { return read_topology(shipped_data().topologies / (name + ".json")).value(); }
Profile profile(const std::string& name) { return read_profile(shipped_data().profiles / (name + ".json")).value(); }

double exposed(const Forecast& f, Traffic traffic) { return f.exposed_s[static_cast<std::size_t>(traffic)]; }
double all_exposed(const Forecast& f) {
  double sum = 0;
  for (const double s : f.exposed_s) sum += s;
  return sum;
}
double gb(Bytes bytes) { return static_cast<double>(bytes.count) * 1e-9; }

/// The ZeRO paper's 2 + 2 + 12 bytes.
Training sixteen_bytes() {
  Training training;
  training.grad_reduce_dtype = Precision::bf16;
  training.seq_length = 4096;
  training.global_batch_size = 8;
  return training;
}

/// The page of a run as one line.
std::string page_of(const Scenario& scenario, const ForecastRun& run) {
  std::string text;
  for (const char c : terminal_page(scenario, run.plan, run.forecast, {})) {
    if (c != '\n' && c != ' ')
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  return text;
}

double states_gb(const Model& model, const Training& training, int stage, int shards) {
  return gb(model_states(parameter_count(model).total(), training, stage, shards).total());
}

}  // namespace

TEST_CASE("Llama-2 7B at 16 bytes per parameter does not fit one 80 GB GPU",
          "[row-0-1][row-2-2][requirements][memory]") {
  CHECK(states_gb(model_of("llama-2-7b"), sixteen_bytes(), 0, 1) == Approx(107.8).margin(0.05));
  const Forecast f = predicted("llama2-7b-one-gpu");
  CHECK(!f.fits);
  const MemoryByKind& memory = f.memory.front();
  CHECK(memory.weights + memory.gradients + memory.optimizer > f.memory_capacity);
  CHECK(memory.optimizer > memory.weights);
}

TEST_CASE("LLM-jp 13B and LLaMA-2 70B need more than data parallelism", "[row-0-2][row-2-6][requirements][memory]") {
  CHECK(states_gb(model_of("llm-jp-13b"), sixteen_bytes(), 0, 1) == Approx(205.7).margin(0.05));
  CHECK(states_gb(model_of("llama-2-70b"), sixteen_bytes(), 0, 1) == Approx(1103.6).margin(0.05));
  for (const char* name : {"llm-jp-13b-mdx", "llama2-70b-abci"}) {
    INFO(name);
    CHECK(!predicted(name, {"parallel.tp=1", "parallel.sequence_parallel=false", "parallel.pp=1", "parallel.dp=0",
                            "parallel.zero_stage=0"})
               .fits);
    CHECK(predicted(name).fits);
  }
}

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

TEST_CASE("what ZeRO saves of 16 bytes per parameter", "[row-0-9][row-0-10][row-0-11][requirements][memory][oracle]") {
  const auto bytes = [](const Training& training, int stage) {
    constexpr std::int64_t kMany = 1 << 30;
    return static_cast<double>(model_states(kMany, training, stage, 1 << 20).total().count) / kMany;
  };
  CHECK(bytes(sixteen_bytes(), 0) == 16);
  CHECK(bytes(sixteen_bytes(), 1) == Approx(4).epsilon(1e-3));  // 75 %, not two thirds
  CHECK(bytes(sixteen_bytes(), 2) == Approx(2).epsilon(1e-3));  // 12.5 points more
  CHECK(bytes(sixteen_bytes(), 3) == Approx(0).margin(1e-3));
  // Two thirds are right for 2 + 2 + 8, as with momentum: stage 1 leaves 4 of 12. Stage 2 saves 2 more, a sixth.
  Training twelve = sixteen_bytes();
  twelve.optimizer = OptimizerKind::momentum;  // 4 master weights, 4 momentum
  CHECK(bytes(twelve, 0) == 12);
  CHECK(1 - bytes(twelve, 1) / bytes(twelve, 0) == Approx(2.0 / 3).epsilon(1e-3));
  CHECK((bytes(twelve, 1) - bytes(twelve, 2)) / bytes(twelve, 0) == Approx(1.0 / 6).epsilon(1e-3));
  CHECK(gb(model_states(7'500'000'000, sixteen_bytes(), 3, 64).total()) == Approx(1.875));
}

TEST_CASE("LLaMA-2 7B, 13B and 70B on ABCI fit 40 GB with exact parameter counts", "[row-0-12][requirements][memory]") {
  const std::pair<const char*, std::int64_t> runs[] = {
      {"llama2-7b-abci", 6'738'415'616}, {"llama2-13b-abci", 13'015'864'320}, {"llama2-70b-abci", 68'976'648'192}};
  for (const auto& [name, parameters] : runs) {
    INFO(name);
    const Scenario scenario = shipped_scenario(name);
    CHECK(parameter_count(scenario.model).total() == parameters);
    CHECK(scenario.profile.name == "a100-40gb");
    const Forecast f = predicted(name);
    CHECK(f.fits);
    CHECK(f.memory_capacity < Bytes{43'000'000'000});
    // Between the time of its FLOPs at the peak of 312 TFLOP/s and five times that; part of the rest is waiting.
    const double flops = 6 * static_cast<double>(parameters) * f.tokens_per_step;
    const double at_peak_s = flops / (312e12 * f.ranks);
    CHECK(f.step_time_s > at_peak_s);
    CHECK(f.step_time_s < 5 * at_peak_s);
    CHECK(all_exposed(f) > 0.001 * f.step_time_s);
    CHECK(all_exposed(f) < 0.5 * f.step_time_s);
  }
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

TEST_CASE("ABCI's A nodes and mdx", "[row-0-15][row-0-16][requirements][network]") {
  const Cluster abci = machine("abci-a");
  CHECK(abci.max_nodes == 120);
  CHECK(abci.node.gpus == 8);
  CHECK(abci.node.nics == 4);
  CHECK(abci.node.nic_rate.bytes_per_second == 25'000'000'000);
  CHECK(abci.node.gpu_link.bytes_per_second == 300'000'000'000);
  CHECK(abci.gpu == "a100-40gb");
  const Scenario mdx = shipped_scenario("llm-jp-13b-mdx");
  CHECK(mdx.cluster.world_size == 12 * 8);
  CHECK(mdx.profile.name == "a100-40gb");
}

TEST_CASE("LLM-jp 13B with ZeRO-DP 12 and PP 8 on 96 A100", "[row-0-17][requirements][memory]") {
  const ForecastRun run = forecast(shipped_scenario("llm-jp-13b-mdx")).value();
  CHECK(run.plan.parallel.dp * run.plan.parallel.pp * run.plan.parallel.tp == 96);
  CHECK(run.forecast.fits);
  const std::int64_t per_rank = parameter_count(shipped_scenario("llm-jp-13b-mdx").model).total() / 8;
  CHECK(static_cast<double>(per_rank) * 1e-9 == Approx(1.607).margin(0.0005));
  CHECK(gb(model_states(per_rank, sixteen_bytes(), 0, 12).total()) == Approx(25.71).margin(0.01));
  CHECK(gb(model_states(per_rank, sixteen_bytes(), 1, 12).total()) == Approx(8.03).margin(0.01));
  // The bubble of 1F1B is 7 slots of M + 7 with even stages. Here all wait for the last stage: five layers and the output
  // layer, whose 50,000 rows are most of a sixth.
  const int m = run.plan.num_microbatches;
  const double even = 7.0 / (m + 7);
  const double alone = schedule_bubble(shipped_scenario("llm-jp-13b-mdx"), run.schedule).value();
  CHECK(alone > even);
  // The last stage works without a pause from its first forward to its last backward; the others add one pass each.
  const PipelineTimes times = stage_times_in(shipped_scenario("llm-jp-13b-mdx"), run.schedule).value();
  REQUIRE(times.stages.size() == 8);
  std::vector<double> passes;
  for (const StageTime& t : times.stages)
    passes.push_back(static_cast<double>(t.forward + t.backward_input + t.backward_weight));
  CHECK(std::ranges::max_element(passes) == passes.end() - 1);
  const double all = std::accumulate(passes.begin(), passes.end(), 0.0);
  CHECK(alone == Approx(1 - m * all / 8 / ((m - 1) * passes.back() + all)).epsilon(1e-6));
  CHECK(run.forecast.bubble_fraction == Approx(alone).margin(0.06));
  CHECK(run.forecast.step_time_s > 0);
}

TEST_CASE("LLM-jp 175B on 392 GPUs is not DP 2, PP 49, TP 2", "[row-0-19][requirements][error]") {
  const Result<ForecastRun> wrong = forecast(shipped_scenario("llm-jp-175b-abci", {"parallel.tp=2", "parallel.dp=2"}));
  REQUIRE(!wrong);
  CHECK(to_string(wrong.error()).find("make 196 ranks, not the 392 of the cluster (needed here: dp 4)") !=
        std::string::npos);
  CHECK(forecast(shipped_scenario("llm-jp-175b-abci")).has_value());
  CHECK(forecast(shipped_scenario("llm-jp-175b-abci", {"parallel.tp=2", "parallel.dp=4"})).has_value());
}

TEST_CASE("without flash attention the scores pass through memory", "[row-0-30][requirements][graph][memory]") {
  Scenario scenario = small_scenario(1, 1, 1);
  const ForecastRun fused = forecast(scenario).value();
  scenario.training.flash_attention = false;
  const ForecastRun unfused = forecast(scenario).value();
  CHECK(unfused.forecast.memory.front().activations > fused.forecast.memory.front().activations);
  CHECK(unfused.forecast.compute_s.contains("softmax"));
  CHECK(!fused.forecast.compute_s.contains("softmax"));
}

TEST_CASE("rotary positions have no parameters", "[row-0-31][requirements][model]") {
  Model model = llama(4, 512, 2048, 8, 8, 32000);
  model.max_position_embeddings = 2048;
  const std::int64_t rope = parameter_count(model).total();
  model.position = Position::none;
  CHECK(parameter_count(model).total() == rope);
  model.position = Position::learned;
  CHECK(parameter_count(model).total() == rope + 2048 * 512);
}

TEST_CASE("bf16 has two-byte activations and no overflow check, fp16 unscales",
          "[row-0-32][row-3-18][requirements][graph]") {
  Scenario scenario = small_scenario(1, 1, 2);
  const auto has_unscale = [&] {
    const ForecastRun run = forecast(scenario).value();
    for (const CostedOperator& op : run.graph.operators)
      if (op.op.name == "unscale") return true;
    return false;
  };
  CHECK(!has_unscale());
  scenario.training.dtype = Precision::fp16;
  CHECK(has_unscale());
}

TEST_CASE("the machines of the lecture",
          "[row-1-8][row-1-9][row-1-10][row-1-11][row-1-12][row-1-13][requirements][network]") {
  const auto devices = [](const Cluster& cluster) { return cluster.max_nodes * cluster.node.gpus; };
  CHECK(devices(machine("frontier")) == 2 * 37'888);  // two dies of each module are GPUs
  CHECK(devices(machine("lumi")) >= 20'480);
  CHECK(devices(machine("fugaku")) == 158'976);
  CHECK(machine("aurora").max_nodes == 10'624);
  CHECK(devices(machine("abci-a")) == 960);
  CHECK(devices(machine("abci-v")) == 4'352);
  for (const auto& [gpu, dies] : {std::pair{"mi250x", 1}, std::pair{"mi250x-module", 2}}) {
    const Profile die = profile(gpu);
    CHECK(2 * die.peak_flops.at(Precision::bf16) == Approx(dies * 383e12).epsilon(1e-3));
    // rocBLAS multiplies fp32 on the matrix units, which are twice as fast as the vector units.
    CHECK(4 * die.peak_flops.at(Precision::fp32) == Approx(die.peak_flops.at(Precision::bf16)).epsilon(1e-3));
    CHECK(die.gemm.at(Precision::fp32).efficiency == die.gemm.at(Precision::bf16).efficiency);
  }
  CHECK(profile("v100").peak_flops.at(Precision::fp16) == Approx(125e12).epsilon(1e-2));
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

TEST_CASE("states and traffic of SGD, momentum and Adam",
          "[row-1-15][row-1-16][row-4-28][requirements][memory][oracle]") {
  Training training = sixteen_bytes();
  const auto update_bytes = [&] {
    Scenario scenario = small_scenario(1, 1, 1);
    scenario.training.optimizer = training.optimizer;
    const ForecastRun run = forecast(scenario).value();
    for (const CostedOperator& op : run.graph.operators) {
      if (op.op.name != "update") continue;
      const auto& shape = std::get<ElementwiseShape>(op.op.shape);
      return shape.traffic.count / shape.elements;
    }
    return std::int64_t{0};
  };
  CHECK(bytes_per_parameter(training, 0).optimizer == 4 + 2 * 4);
  CHECK(bytes_per_parameter(training, 0).total() == 16);  // 8 times the bf16 weights
  CHECK(update_bytes() == 30);                            // w, m, v, g read; w, m, v and the bf16 copy written
  training.optimizer = OptimizerKind::momentum;
  CHECK(bytes_per_parameter(training, 0).optimizer == 4 + 4);
  CHECK(update_bytes() == 22);
  training.optimizer = OptimizerKind::sgd;
  CHECK(bytes_per_parameter(training, 0).optimizer == 4);
  CHECK(update_bytes() == 14);
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

TEST_CASE("global batch = local batch x micro-batches x data-parallel ranks",
          "[row-1-22][row-4-5][requirements][plan]") {
  for (const int dp : {1, 2, 4}) {
    Scenario scenario = small_scenario(1, 1, dp);
    scenario.training.micro_batch_size = 2;
    scenario.training.global_batch_size = 2 * 3 * dp;
    CHECK(forecast(scenario).value().plan.num_microbatches == 3);
  }
}

TEST_CASE("pipeline and tensor parallelism divide parameters and FLOPs", "[row-1-30][row-1-31][requirements][memory]") {
  const Model model = llama3_70b();
  Training training = sixteen_bytes();
  training.global_batch_size = 64;
  const auto of_rank = [&](int tp, int pp, int rank) {
    Parallel parallel;
    parallel.tp = tp;
    parallel.pp = pp;
    return static_cast<double>(rank_parameters(model, make_plan(model, parallel, training, tp * pp).value(), rank));
  };
  const double all = of_rank(1, 1, 0);
  // Norms are on every rank: 161 x 8192 of them.
  CHECK(of_rank(8, 1, 0) == Approx(all / 8).epsilon(2e-4));
  // A middle stage has a quarter of the layers; the first and the last have a table more.
  const double layers = all - 2.0 * 128256 * 8192 - 8192;
  CHECK(of_rank(1, 4, 1) == Approx(layers / 4));
  CHECK(of_rank(1, 4, 0) == Approx(layers / 4 + 128256.0 * 8192));
  Parallel odd;
  odd.tp = 3;
  CHECK(!make_plan(model, odd, training, 3));
}

TEST_CASE("one all-reduce per block and direction", "[row-1-32][row-3-19][row-3-20][row-4-15][requirements][graph]") {
  const Model model = llama(2, 512, 2048, 8, 8, 32000);
  Parallel parallel;
  parallel.tp = 4;
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

TEST_CASE("days of a pre-training are its tokens over the rate", "[row-1-36][requirements]") {
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  const Forecast f = predicted("llama3-405b-16k");
  const double n = static_cast<double>(parameter_count(scenario.model).total());
  const double tokens = 15.6e12;
  Training asked = scenario.training;
  asked.train_tokens = 15'600'000'000'000;
  CHECK(tokens_to_train(asked) == tokens);
  const double days = tokens / f.tokens_per_s / 86400;
  // In the product: the page of the run says the days.
  Scenario whole = scenario;
  whole.training = asked;
  const ForecastRun run = forecast(whole).value();
  CHECK(page_of(whole, run).find(fmt::format("{:.3g} days for 15.6 T", days)) != std::string::npos);
  // 6 N D over the machine's rate, which counts attention as well: a few percent apart.
  const double rate = f.model_tflops_per_gpu * 1e12 * f.ranks;
  CHECK(days == Approx(6 * n * tokens / rate / 86400).epsilon(0.10));
  CHECK(days > 60);
  CHECK(days < 120);
}

TEST_CASE("models of the documents are shipped with their counts", "[row-1-37][row-2-1][requirements][model]") {
  CHECK(parameter_count(model_of("mixtral-8x7b")).total() == 46'702'792'704);
  CHECK(active_parameters(model_of("mixtral-8x7b")) == 12'879'925'248);
  const Model small = model_of("baichuan-2-7b");
  CHECK(small.num_layers == 32);
  CHECK(small.vocab_size == 125696);
  CHECK(parameter_count(small).total() == 7'505'973'248);
  const Model large = model_of("baichuan-2-13b");
  CHECK(large.hidden_size == 5120);
  CHECK(large.ffn_hidden_size == 13696);
  CHECK(parameter_count(large).total() == 13'896'668'160);
  // Trained with Megatron-DeepSpeed.
  CHECK(predicted("llama2-7b-abci", {"model=baichuan-2-7b", "stack=megatron-deepspeed"}).step_time_s >
        predicted("llama2-7b-abci", {"model=baichuan-2-7b"}).step_time_s);
}

TEST_CASE("tensor parallelism divides weights, gradients and optimizer states",
          "[row-3-21][row-3-22][requirements][memory]") {
  const Model model = llama3_70b();
  Parallel parallel;
  parallel.tp = 8;
  const Plan plan = make_plan(model, parallel, sixteen_bytes(), 8).value();
  CHECK(static_cast<double>(rank_parameters(model, plan, 0)) == Approx(70.554e9 / 8).epsilon(1e-3));
  // The memory of a rank with 2 + 2 + 4 bytes: 17.5 + 17.5 GB of the guide with 70 billion, and the optimizer states that
  // it leaves whole are 35 of its 280 GB.
  const Forecast f =
      predicted("p5-llama3-70b-32", {"cluster.world_size=8", "parallel.dp=1", "parallel.zero_stage=0",
                                     "training.master_weights=false", "training.grad_reduce_dtype=bf16"});
  const MemoryByKind& memory = f.memory.front();
  CHECK(gb(memory.weights) == Approx(17.64).margin(0.01));
  CHECK(gb(memory.gradients) == Approx(17.64).margin(0.01));
  CHECK(gb(memory.optimizer) == Approx(35.28).margin(0.02));
}

TEST_CASE("the tensor degrees within a node are listed: 1 2 4 8 of eight GPUs, 1 2 4 of four",
          "[row-3-26][requirements][report]") {
  const auto notes = [](const std::string& topology, int tp) {
    const Scenario scenario = shipped_scenario(
        "llama2-70b-abci", {"cluster.topology=" + topology, fmt::format("cluster.world_size={}", 4 * tp),
                            fmt::format("parallel.tp={}", tp), "parallel.pp=1"});
    return note_texts(scenario, forecast(scenario).value().forecast);
  };
  const auto lists = [](const std::vector<std::string>& lines, const std::string& degrees) {
    return std::ranges::any_of(lines, [&](const std::string& line) {
      return line.starts_with("tensor-parallel groups of ") &&
             line.find("(within one: " + degrees + ")") != std::string::npos;
    });
  };
  CHECK(lists(notes("dgx-a100", 16), "1 2 4 8"));
  CHECK(lists(notes("abci-v", 8), "1 2 4"));
  CHECK_FALSE(lists(notes("dgx-a100", 8), "1 2 4 8"));
}

TEST_CASE("the degrees that divide the heads are listed", "[row-3-26][requirements][error]") {
  const Model model = llama(32, 4096, 11008, 32, 32, 32000);
  Parallel parallel;
  parallel.tp = 12;
  const auto plan = make_plan(model, parallel, sixteen_bytes(), 12);
  REQUIRE(!plan);
  CHECK(to_string(plan.error()).find("(allowed: 1 2 4 8 16 32)") != std::string::npos);
}

TEST_CASE("the runs of the P5 table: degrees, nodes, and states of 16 bytes per parameter in GB",
          "[row-3-41][row-3-42][row-3-48][row-3-49][row-3-50][requirements][memory]") {
  struct Run {
    const char* name;
    int tp, pp, dp, nodes;
    double parameters;  ///< of the fullest rank: of the model over tp pp, and its share of the ends with stages
    double states_gb;   ///< with FSDP over dp
    double fullest_gb;  ///< of the stage that needs most memory
  };
  // 70.55e9 x 16 / 32 = 35.28 GB. 405.85e9 x 16 / 256 = 25.37 GB; a stage with an end has 126 / 4 layers and one table of
  // 128256 x 16384, or fewer layers where both tables count as layers.
  const Run runs[] = {{"p5-llama2-7b-8", 1, 1, 8, 1, 6.738e9, 13.48, 13.48},
                      {"p5-llama2-13b-16", 1, 1, 16, 2, 13.016e9, 13.02, 13.02},
                      {"p5-llama2-13b-128", 1, 1, 128, 16, 13.016e9, 1.627, 1.627},
                      {"p5-llama3-70b-32", 8, 1, 4, 4, 70.554e9 / 8, 35.28, 35.28},
                      {"p5-llama3-70b-64", 8, 1, 8, 8, 70.554e9 / 8, 17.64, 17.64},
                      {"p5-llama3-405b-256", 8, 4, 8, 32, 405.85e9 / 32, 25.37, 25.23},
                      {"p5-llama3-405b-512", 8, 4, 16, 64, 405.85e9 / 32, 12.68, 12.62},
                      {"llama3-405b-1024", 8, 16, 8, 128, 405.85e9 / 128, 6.34, 6.38}};
  for (const Run& run : runs) {
    CAPTURE(run.name);
    const Scenario scenario = shipped_scenario(run.name);
    const ForecastRun result = forecast(scenario).value();
    CHECK(result.plan.parallel.tp == run.tp);
    CHECK(result.plan.parallel.pp == run.pp);
    CHECK(result.plan.grid.size(Axis::dp) == run.dp);
    CHECK(scenario.cluster.nodes() == run.nodes);
    CHECK(result.forecast.fits);
    // Mean over the stages: 2 weights + 2 gradients + 12 optimizer bytes, or 4 + 4 + 8 as FSDP holds them.
    double states = 0;
    for (const MemoryByKind& m : result.forecast.memory)
      states += gb(m.weights + m.gradients + m.optimizer) / static_cast<double>(result.forecast.memory.size());
    CHECK(states == Approx(run.states_gb).epsilon(0.003));
    CHECK(states == Approx(16e-9 * run.parameters / run.dp).epsilon(0.003));
    const MemoryByKind& fullest = result.forecast.memory[static_cast<std::size_t>(result.forecast.tightest_pp_rank)];
    CHECK(gb(fullest.weights + fullest.gradients + fullest.optimizer) == Approx(run.fullest_gb).epsilon(0.001));
  }
  // A stage of the run on 1,024 GPUs is tp x dp = 64 GPUs, 8 nodes.
  const Scenario big = shipped_scenario("llama3-405b-1024");
  CHECK(big.parallel.tp * big.parallel.dp == 64);
  CHECK(64 / big.cluster.node.gpus == 8);
  // Recomputation is used only where activations do not fit otherwise.
  for (const Run& run : runs) {
    const Scenario scenario = shipped_scenario(run.name);
    if (scenario.training.recompute == Recompute::none || scenario.cluster.world_size == 1024) continue;
    CAPTURE(run.name);
    CHECK_FALSE(predicted(run.name, {"training.recompute=none"}).fits);
  }
}

TEST_CASE("four GPUs in one node are faster than two and two", "[row-4-2][requirements][network]") {
  Scenario scenario = small_scenario(1, 1, 4);
  const double one_node = forecast(scenario).value().forecast.step_time_s;
  scenario.cluster.node.gpus = scenario.cluster.node.gpus_per_host = scenario.cluster.node.nics = 2;
  CHECK(scenario.cluster.nodes() == 2);
  CHECK(forecast(scenario).value().forecast.step_time_s > one_node);
}

TEST_CASE("the small translation transformer runs with DDP on four GPUs", "[row-4-10][requirements][model][encoder]") {
  const Model model = model_of("translation-transformer");
  // Encoder layer: attention 4 h h + 4 h, MLP 2 h f + f + h, two norms 4 h; decoder: attention twice, three norms.
  const std::int64_t h = 512;
  const std::int64_t attention = 4 * h * h + 4 * h;
  const std::int64_t mlp = 2 * h * 512 + 512 + h;
  const std::int64_t layers = 6 * (attention + mlp + 4 * h) + 6 * (2 * attention + mlp + 6 * h);
  const std::int64_t ends = 2 * 32000 * h + 128 * h + 2 * 2 * h;
  CHECK(parameter_count(model).total() == layers + ends);
  const ForecastRun run = forecast(shipped_scenario("translation-ddp-4")).value();
  CHECK(run.forecast.fits);
  CHECK(run.forecast.ranks == 4);
  int cross = 0;
  for (const CostedOperator& op : run.graph.operators) cross += op.op.name == "cross_kv" ? 1 : 0;
  CHECK(cross == 3);  // forward, dgrad, wgrad
}

TEST_CASE("peak memory falls with the tensor degree", "[row-4-19][requirements][memory]") {
  const MemoryByKind whole = forecast(small_scenario(1, 1, 1)).value().forecast.memory.front();
  Bytes before = whole.total();
  for (const int tp : {2, 4}) {
    const MemoryByKind part = forecast(small_scenario(tp, 1, 1)).value().forecast.memory.front();
    CHECK(part.total() < before);
    before = part.total();
    // All but the norms is divided.
    CHECK(gb(part.weights) == Approx(gb(whole.weights) / tp).epsilon(0.001));
    CHECK(gb(part.optimizer) == Approx(gb(whole.optimizer) / tp).epsilon(0.001));
  }
}

TEST_CASE("GPT-2 1.5B with Adam takes 24 GB, in three parts", "[row-4-27][row-4-29][requirements][memory]") {
  const MemoryByKind states = model_states(1'500'000'000, sixteen_bytes(), 0, 1);
  CHECK(gb(states.total()) == Approx(24));
  CHECK(states.weights == Bytes{3'000'000'000});
  CHECK(states.gradients == Bytes{3'000'000'000});
  CHECK(states.optimizer == Bytes{18'000'000'000});
}

TEST_CASE("128 samples are 4 batches of 32 or 2 of 64; epochs repeat them",
          "[row-4-4][row-4-10][row-4-11][requirements][plan]") {
  const auto with = [](int batch) {
    const std::string size = std::to_string(batch);
    return shipped_scenario(
        "translation-ddp-4",
        {"cluster.world_size=1", "parallel.dp=1", "training.micro_batch_size=" + size,
         "training.global_batch_size=" + size, "training.dataset_samples=128", "training.epochs=10"});
  };
  CHECK(steps_of_epoch(with(32).training) == 4);
  CHECK(steps_of_epoch(with(64).training) == 2);
  CHECK(steps_of_epoch(with(48).training) == 3);            // the last batch has 32 samples
  CHECK(with(32).training.train_tokens == 128 * 10 * 128);  // sequences of 128 tokens
  const Scenario scenario = with(32);
  const ForecastRun run = forecast(scenario).value();
  const std::string page = page_of(scenario, run);
  CHECK(page.find("10 of 128 samples, 4 steps each: 40 steps, ") != std::string::npos);
  // Twice the GPUs with the same local batch: half the steps.
  const Scenario two =
      shipped_scenario("translation-ddp-4", {"cluster.world_size=2", "parallel.dp=2", "training.micro_batch_size=32",
                                             "training.global_batch_size=64", "training.dataset_samples=128"});
  CHECK(steps_of_epoch(two.training) == 2);
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

TEST_CASE("weights, gradients and optimizer states are numbers on the page",
          "[row-3-5][row-3-6][row-4-27][row-4-28][requirements][report]") {
  const Scenario scenario = shipped_scenario("llama3-70b-fsdp-8", {"training.master_weights=false"});
  const ForecastRun run = forecast(scenario).value();
  const std::string page = page_of(scenario, run);
  CHECK(page.find("17.64 GB weights, 17.64 GB gradients, 35.28 GB optimizer, ") != std::string::npos);
  CHECK(page.find("8 bytes per trained parameter (2 weights, 2 gradients, 4 optimizer), 4 times its 16-bit weight") !=
        std::string::npos);
  // Adam with an fp32 copy: 16 bytes, 8 times the weight.
  const Scenario adam = shipped_scenario("llama3-70b-fsdp-8");
  const ForecastRun full = forecast(adam).value();
  CHECK(page_of(adam, full).find("16 bytes per trained parameter (") != std::string::npos);
  CHECK(page_of(adam, full).find("8 times its 16-bit weight") != std::string::npos);
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

TEST_CASE("an UltraCluster of 20,000 GPUs does not block: each half sends to the other at line rate",
          "[row-3-51][requirements][network]") {
  Cluster p5 = machine("aws-p5");
  CHECK((p5.max_nodes == 0 || p5.max_nodes * p5.node.gpus >= 20'000));  // 0: any number
  p5.world_size = 20'000;
  const Topology topology(p5);
  // 1,250 nodes of 400 GB/s in each half.
  CHECK(static_cast<double>(bisection_bandwidth(topology).bytes_per_second) == Approx(1250 * 400e9));
}
