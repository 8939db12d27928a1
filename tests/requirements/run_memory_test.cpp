// Requirements on the memory of runs.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/forecast/schedule_runs.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "tests/requirements/model_states_gb.hpp"
#include "tests/requirements/predicted.hpp"
#include "tests/support/models.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("Llama-2 7B at 16 bytes per parameter does not fit one 80 GB GPU",
          "[row-0-1][row-2-2][requirements][memory]") {
  CHECK(states_gb(parameter_count(shipped_model("llama-2-7b")).total(), 0, 1) == Approx(107.8).margin(0.05));
  const Forecast f = predicted("llama2-7b-one-gpu");
  CHECK(!f.fits);
  const MemoryByKind& memory = f.memory.front();
  CHECK(memory.weights + memory.gradients + memory.optimizer > f.memory_capacity);
  CHECK(memory.optimizer > memory.weights);
}

TEST_CASE("LLM-jp 13B and LLaMA-2 70B need more than data parallelism", "[row-0-2][row-2-6][requirements][memory]") {
  CHECK(states_gb(parameter_count(shipped_model("llm-jp-13b")).total(), 0, 1) == Approx(205.7).margin(0.05));
  CHECK(states_gb(parameter_count(shipped_model("llama-2-70b")).total(), 0, 1) == Approx(1103.6).margin(0.05));
  for (const char* name : {"llm-jp-13b-mdx", "llama2-70b-abci"}) {
    INFO(name);
    CHECK(!predicted(name, {"parallel.tp=1", "parallel.sequence_parallel=false", "parallel.pp=1", "parallel.dp=0",
                            "parallel.zero_stage=0"})
               .fits);
    CHECK(predicted(name).fits);
  }
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
  CHECK(states_gb(7'500'000'000, 3, 64) == Approx(1.875));
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

TEST_CASE("LLM-jp 13B with ZeRO-DP 12 and PP 8 on 96 A100", "[row-0-17][requirements][memory]") {
  const ForecastRun run = forecast(shipped_scenario("llm-jp-13b-mdx")).value();
  CHECK(run.plan.parallel.dp * run.plan.parallel.pp * run.plan.parallel.tp == 96);
  CHECK(run.forecast.fits);
  const std::int64_t per_rank = parameter_count(shipped_scenario("llm-jp-13b-mdx").model).total() / 8;
  CHECK(static_cast<double>(per_rank) * 1e-9 == Approx(1.607).margin(0.0005));
  CHECK(states_gb(per_rank, 0, 12) == Approx(25.71).margin(0.01));
  CHECK(states_gb(per_rank, 1, 12) == Approx(8.03).margin(0.01));
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

TEST_CASE("without flash attention the scores pass through memory", "[row-0-30][requirements][graph][memory]") {
  Scenario scenario = small_scenario(1, 1, 1);
  const ForecastRun fused = forecast(scenario).value();
  scenario.training.flash_attention = false;
  const ForecastRun unfused = forecast(scenario).value();
  CHECK(unfused.forecast.memory.front().activations > fused.forecast.memory.front().activations);
  CHECK(unfused.forecast.compute_s.contains("softmax"));
  CHECK(!fused.forecast.compute_s.contains("softmax"));
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

TEST_CASE("pipeline and tensor parallelism divide parameters and FLOPs", "[row-1-30][row-1-31][requirements][memory]") {
  const Model model = llama3_70b();
  Training training = sixteen_bytes();
  training.global_batch_size = 64;
  const auto of_rank = [&](int tp, int pp, int rank) {
    const Parallel parallel{.tp = tp, .pp = pp};
    return static_cast<double>(rank_parameters(model, make_plan(model, parallel, training, tp * pp).value(), rank));
  };
  const double all = of_rank(1, 1, 0);
  // Norms are on every rank: 161 x 8192 of them.
  CHECK(of_rank(8, 1, 0) == Approx(all / 8).epsilon(2e-4));
  // A middle stage has a quarter of the layers; the first and the last have a table more.
  const double layers = all - 2.0 * 128256 * 8192 - 8192;
  CHECK(of_rank(1, 4, 1) == Approx(layers / 4));
  CHECK(of_rank(1, 4, 0) == Approx(layers / 4 + 128256.0 * 8192));
  const Parallel odd{.tp = 3};
  CHECK(!make_plan(model, odd, training, 3));
}

TEST_CASE("tensor parallelism divides weights, gradients and optimizer states",
          "[row-3-21][row-3-22][requirements][memory]") {
  const Model model = llama3_70b();
  const Parallel parallel{.tp = 8};
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
