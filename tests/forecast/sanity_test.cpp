// What a change must do, for several runs and many values: more of a resource is never slower, more damage never faster.
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include <catch2/catch.hpp>

#include "sim/forecast/change.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "sim/io/data_files.hpp"
#include "sim/io/files.hpp"
#include "sim/io/scenario_document.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/search/sweep.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"
#include "tools/sweep_predict.hpp"

using namespace tracecast;

namespace {

const std::array kRuns{"llama3-405b-1024", "p5-llama3-70b-64", "torchtitan-llama3-8b-128gpu",
                       "zero-1-7.5b",      "pipeline-1f1b",    "korthikanti-175b-full"};

/// One key with values from little to much.
struct Lever {
  const char* axis;
  bool helps;  ///< more of it makes the step shorter, or leaves it
};

/// Transfers that take less time slow the kernels beside them more while they last: a faster link costs up to 0.02 % in two
/// runs where it was not the bottleneck.
constexpr double kContention = 5e-4;

}  // namespace

TEST_CASE("sanity: more of a resource is never slower, more damage or work never faster", "[forecast][property]") {
  const std::array levers{Lever{"topology.node.nic_rate=50 Gb/s,100 Gb/s,200 Gb/s,400 Gb/s", true},
                          Lever{"topology.node.gpu_link=100 GB/s,300 GB/s,450 GB/s,900 GB/s", true},
                          Lever{"perturb.slow_rank.0=1,1.1,1.5,2", false},
                          Lever{"training.seq_length=1024,2048", false},
                          Lever{"training.global_batch_size=1024,2048,4096", false},
                          Lever{"perturb.lost_rails=[],[0],[0,1]", false}};
  test::EverySeventh selection;
  for (const char* run : kRuns) {
    const auto read = [&](const std::vector<std::string>& overrides) {
      return cli::read_with_topology(run, overrides);
    };
    for (const Lever& lever : levers) {
      if (selection.leaves_out()) continue;
      const Result<Sweep> sweep =
          run_sweep({parse_sweep_axis(lever.axis).value()}, read, {}, [](std::size_t, std::size_t) {});
      INFO(run << " " << lever.axis);
      if (!sweep) continue;  // a sequence that the model does not allow
      double last_s = 0;
      for (const GridPoint& point : sweep->points) {
        if (!point.error.empty()) continue;
        CAPTURE(point.values.front(), point.step_time_s, last_s);
        if (last_s > 0 && lever.helps) CHECK(point.step_time_s <= last_s * (1 + kContention));
        if (last_s > 0 && !lever.helps) CHECK(point.step_time_s >= last_s * (1 - 1e-9));
        last_s = point.step_time_s;
        CHECK(point.mfu > 0);
        CHECK(point.mfu < 1);
      }
      CHECK(last_s > 0);
    }
  }
}

namespace {

/// A key of the machine or the run on the time of one run; `acts`: the last value gives another time than the first.
struct Response {
  const char* run;
  const char* axis;
  bool helps;
  bool acts = true;
};

constexpr std::array kResponses{
    Response{"llama3-405b-16k", "topology.node.nics=1,2,4,8", true},
    // Rings are chosen for these groups with and without it.
    Response{"llama3-405b-16k", "topology.node.nvls=false,true", true, false},
    Response{"llama3-405b-16k", "topology.fabric.tiers.pod.oversubscription=1,2,7,20", false},
    Response{"llama3-405b-16k", R"(perturb.lost_uplinks={},{"pod":0.3},{"pod":0.8})", false},
    Response{"llama3-405b-16k", "perturb.slow_nic.0.0=1,0.5,0.1", false},
    Response{"llama3-405b-16k", "topology.node.nic_latency=0.5 us,2 us,100 us", false},
    Response{"llama3-405b-16k", "topology.node.link_latency=0.1 us,1 us,20 us", false},
    Response{"llama3-405b-16k", "cluster.gpu_spread=0,0.02,0.1", false},
    Response{"llama3-405b-16k", "parallel.vpp=1,2,4,8", true},
    Response{"torchtitan-llama3-8b-8gpu", "cluster.gpu_spread=0,0.02,0.1", false},
    Response{"torchtitan-llama3-8b-8gpu", "training.recompute=none,selective,full", false},
    Response{"torchtitan-llama3-8b-8gpu", "training.dtype=fp8,bf16,fp32", false},
    Response{"deepseek-v3-2048", "training.expert_imbalance=1,1.5,3", false},
    Response{"zero-1-7.5b", "parallel.zero_stage=1,2,3", false},
};

}  // namespace

TEST_CASE("sanity: every key of machine and run acts, and in the direction that it must", "[forecast][property]") {
  for (const Response& each : kResponses) {
    INFO(each.run << " " << each.axis);
    const auto read = [&](const std::vector<std::string>& overrides) {
      return cli::read_with_topology(each.run, overrides);
    };
    const Result<Sweep> sweep =
        run_sweep({parse_sweep_axis(each.axis).value()}, read, {}, [](std::size_t, std::size_t) {});
    REQUIRE(sweep);
    for (std::size_t i = 1; i < sweep->points.size(); ++i) {
      const GridPoint& before = sweep->points[i - 1];
      const GridPoint& after = sweep->points[i];
      CAPTURE(after.values.front(), before.step_time_s, after.step_time_s);
      CHECK(before.error + after.error == "");
      if (each.helps) CHECK(after.step_time_s <= before.step_time_s * (1 + kContention));
      if (!each.helps) CHECK(after.step_time_s >= before.step_time_s * (1 - kContention));
    }
    if (each.acts) CHECK(sweep->points.front().step_time_s != sweep->points.back().step_time_s);
  }
}

TEST_CASE("sanity: recomputing everything repeats a forward, a third of forward and backward", "[forecast][property]") {
  for (const char* run : {"torchtitan-llama3-8b-8gpu", "korthikanti-175b-full"}) {
    INFO(run);
    const auto step_s = [&](const char* recompute) {
      return forecast(cli::read_with_topology(run, {std::string("training.recompute=") + recompute}).value())
          .value()
          .forecast.step_time_s;
    };
    const double more = step_s("full") / step_s("none");
    CHECK(more > 1.2);
    CHECK(more < 1.36);
  }
}

TEST_CASE("sanity: twice the GPUs are never more than twice as fast", "[forecast][property]") {
  for (const char* run : {"llama3-405b-1024", "torchtitan-llama3-8b-128gpu"}) {
    const auto read = [&](const std::vector<std::string>& overrides) {
      return cli::read_with_topology(run, overrides);
    };
    const Result<Sweep> sweep = run_sweep({parse_sweep_axis("cluster.world_size=128,256,512,1024").value()}, read, {},
                                          [](std::size_t, std::size_t) {});
    REQUIRE(sweep);
    for (const std::vector<GridPoint>& study : {sweep->points, sweep->weak}) {
      REQUIRE(study.size() == 4);
      for (std::size_t i = 1; i < study.size(); ++i) {
        INFO(run << " " << study[i].gpus);
        CHECK(study[i].tokens_per_s_per_gpu <= study[i - 1].tokens_per_s_per_gpu);
      }
    }
  }
}

TEST_CASE("sanity: neither the order of settings nor saving the scenario changes a forecast", "[forecast][property]") {
  const std::vector<std::string> settings{"parallel.tp=4", "training.micro_batch_size=1", "perturb.slow_rank.1=1.2"};
  const std::vector<std::string> reversed(settings.rbegin(), settings.rend());
  for (const char* run : {"p5-llama3-70b-64", "zero-1-7.5b", "korthikanti-175b-full"}) {
    INFO(run);
    const auto step_s = [](const Scenario& scenario) { return forecast(scenario).value().forecast.step_time_s; };
    const Scenario scenario = cli::read_with_topology(run, settings).value();
    CHECK(step_s(cli::read_with_topology(run, reversed).value()) == step_s(scenario));
    const Result<JsonDocument> saved = parse_json(to_json(scenario), "saved.json");
    REQUIRE(saved);
    CHECK(step_s(read_scenario(*saved, shipped_data()).value()) == step_s(scenario));
  }
}

TEST_CASE("sanity: a collective of more bytes never takes less time", "[network][property]") {
  for (const char* machine : {"dgx-h100", "hgx-mi300x", "gb200-nvl72", "aws-p5", "dgx-a100"}) {
    Cluster cluster = shipped_topology(machine);
    cluster.world_size = 64;
    const Profile profile = shipped_profile(cluster.gpu);
    const std::unique_ptr<NetworkModel> network = make_network(cluster, profile);
    std::vector<int> ranks(64);
    std::iota(ranks.begin(), ranks.end(), 0);
    const GroupPlacement group = place(cluster, ranks, 1);
    for (const Collective op : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                Collective::broadcast, Collective::all_to_all}) {
      Duration last{};
      for (std::int64_t size = 1024; size <= std::int64_t{1} << 31; size *= 2) {
        const Duration now = network->cost({.collective = op, .size = Bytes{size}}, group).duration;
        INFO(machine << " " << to_string(op) << " " << size);
        CHECK(now >= last);
        last = now;
      }
    }
  }
}

TEST_CASE("sanity: a slow rank costs at most its factor, and factor 1 nothing", "[forecast][property]") {
  for (const char* run : kRuns) {
    INFO(run);
    const auto step_s = [&](const std::vector<std::string>& overrides) {
      return forecast(cli::read_with_topology(run, overrides).value()).value().forecast.step_time_s;
    };
    const double plain = step_s({});
    CHECK(step_s({"perturb.slow_rank.0=1"}) == plain);
    CHECK(step_s({"perturb.slow_rank.0=2"}) <= 2 * plain);
  }
}

TEST_CASE("sanity: HFU over MFU is at least 1, and the same however keys reach the queries", "[forecast][property]") {
  const FlopsConvention convention = GENERATE(FlopsConvention::model_full_attn, FlopsConvention::model_causal);
  const std::int64_t window = GENERATE(0, 512, 6000, 1 << 20);
  const int cp = GENERATE(1, 2, 8);
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    CAPTURE(window, cp, to_string(recompute), to_string(convention));
    Scenario scenario = test::small_scenario(1, 1, 1);
    scenario.model.sliding_window = window;
    scenario.model.global_layer_interval = 4;
    scenario.training.seq_length = 8192;
    scenario.training.recompute = recompute;
    scenario.parallel.cp = scenario.cluster.world_size = cp;
    const auto ratio = [&](ContextExchange exchange) {
      scenario.parallel.cp_comm_type = exchange;
      const Forecast f = forecast(scenario, {.flops_convention = convention}).value().forecast;
      return f.hfu / f.mfu;
    };
    const double gathered = ratio(ContextExchange::all_gather);
    CHECK(ratio(ContextExchange::p2p) == Approx(gathered).epsilon(1e-9));
    CHECK(ratio(ContextExchange::a2a) == Approx(gathered).epsilon(1e-9));
    if (recompute == Recompute::none) CHECK(gathered == 1);
    if (recompute == Recompute::selective) CHECK(gathered > 1);
    // The forward again, but for the output layer, which is 1.2 % of the model's FLOPs at most.
    if (recompute == Recompute::full) CHECK(gathered == Approx(4.0 / 3).margin(0.005));
  }
}

TEST_CASE("sanity: HFU is at least MFU in all shipped models with every kind of recomputation",
          "[forecast][property]") {
  const std::vector<std::filesystem::path> models = data_files(shipped_data().scenarios / "models");
  const auto& path = models[static_cast<std::size_t>(GENERATE_REF(range(std::size_t{0}, models.size())))];
  Scenario scenario = test::small_scenario(1, 1, 1);
  scenario.model = read_model(path).value();
  INFO(scenario.model.name);
  scenario.training.seq_length = 1024;
  if (scenario.model.position == Position::learned && scenario.model.max_position_embeddings < 1024) return;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    for (const FlopsConvention convention : {FlopsConvention::model_full_attn, FlopsConvention::model_causal}) {
      scenario.training.recompute = recompute;
      const Result<ForecastRun> run = forecast(scenario, {.flops_convention = convention});
      if (!run) continue;
      CHECK(run->forecast.hfu >= run->forecast.mfu * (1 - 1e-12));
    }
}

TEST_CASE("sanity: the parts sum to the step, and HFU is at least MFU", "[forecast][property]") {
  for (const char* run : kRuns) {
    INFO(run);
    const Forecast f = forecast(cli::read_with_topology(run, {}).value()).value().forecast;
    double sum_s = 0;
    for (const StepPart& part : step_parts(f)) {
      CHECK(part.time_s >= 0);
      sum_s += part.time_s;
    }
    CHECK(sum_s == Approx(f.step_time_s).epsilon(1e-9));
    CHECK(f.hfu >= f.mfu * (1 - 1e-12));
    CHECK(f.hfu < 1);
  }
}

namespace {

/// Of the first pipeline rank.
MemoryByKind memory_of(const char* run, const std::vector<std::string>& overrides) {
  INFO(run);
  return forecast(cli::read_with_topology(run, overrides).value()).value().forecast.memory.front();
}

std::string setting(const char* key, int value) { return std::string(key) + "=" + std::to_string(value); }

}  // namespace

TEST_CASE("sanity: 1F1B keeps as many micro-batches however many there are, GPipe all of them",
          "[forecast][property]") {
  const auto kept = [](const char* schedule, int batch) {
    return memory_of("pipeline-1f1b",
                     {std::string("parallel.pp_schedule=") + schedule, setting("training.global_batch_size", batch)})
        .activations.count;
  };
  for (const int batch : {16, 64}) {
    CHECK(kept("1f1b", batch) == kept("1f1b", 8));
    CHECK(kept("gpipe", batch) == batch / 8 * kept("gpipe", 8));
  }
}

TEST_CASE("sanity: activations are divided by tp and cp, and grow with the sequence, squared where scores are stored",
          "[forecast][property]") {
  const auto with = [](std::vector<std::string> overrides) {
    overrides.emplace_back("training.micro_batch_size=1");
    return memory_of("p5-llama3-70b-64", overrides);
  };
  for (const int tp : {2, 4}) {  // with sequence parallelism; without ZeRO, weights are divided by tp alone
    const MemoryByKind one = with({setting("parallel.tp", tp), "parallel.zero_stage=0"});
    const MemoryByKind two = with({setting("parallel.tp", 2 * tp), "parallel.zero_stage=0"});
    CHECK(static_cast<double>(one.activations.count) / static_cast<double>(two.activations.count) == Approx(2));
    // Norms are on every rank.
    CHECK(static_cast<double>(one.weights.count) / static_cast<double>(two.weights.count) == Approx(2).epsilon(1e-3));
  }
  for (const int cp : {2, 4})
    CHECK(cp * with({setting("parallel.cp", cp)}).activations.count == with({"parallel.cp=1"}).activations.count);
  const auto kept = [&](int tokens, bool fused) {
    return with({setting("training.seq_length", tokens),
                 std::string("training.flash_attention=") + (fused ? "true" : "false")})
        .activations.count;
  };
  for (const int times : {2, 4, 8}) CHECK(kept(times * 1024, true) == times * kept(1024, true));
  // Scores of s tokens take a s^2, all else is linear: twice as long a sequence keeps 2 a s^2 more than twice as much.
  const auto scores = [&](int tokens) { return kept(2 * tokens, false) - 2 * kept(tokens, false); };
  CHECK(scores(1024) > 0);
  for (const int times : {2, 4}) CHECK(scores(times * 1024) == times * times * scores(1024));
}

TEST_CASE("sanity: ZeRO keeps 18, 6 + 12 / dp and 2 + 16 / dp bytes of each parameter, gradients in fp32",
          "[forecast][property]") {
  for (const int dp : {8, 64}) {
    const auto states = [&](int stage) {
      return memory_of("zero-1-7.5b", {setting("cluster.world_size", dp), setting("parallel.zero_stage", stage),
                                       setting("training.global_batch_size", dp), "training.grad_reduce_dtype=fp32"});
    };
    const auto bytes = [](const MemoryByKind& memory) {
      return static_cast<double>((memory.weights + memory.gradients + memory.optimizer).count);
    };
    const double parameters = static_cast<double>(states(0).weights.count) / 2;
    CHECK(bytes(states(0)) / parameters == Approx(18));
    CHECK(bytes(states(1)) / parameters == Approx(6 + 12.0 / dp).epsilon(1e-4));
    CHECK(bytes(states(2)) / parameters == Approx(2 + 16.0 / dp).epsilon(1e-4));
  }
}

TEST_CASE("sanity: a token takes 6 N + 12 L a d s FLOPs in a shipped dense model, half the scores if causal",
          "[model][property]") {
  int models = 0;
  for (const std::filesystem::path& path : data_files(shipped_data().scenarios / "models")) {
    const Model model = read_model(path).value();
    if (model.moe || model.latent_attention || model.encoder_layers > 0 || !model.layer_pattern.empty()) continue;
    bool windows = false;
    for (int layer = 0; layer < model.num_layers; ++layer) windows = windows || model.window(layer) > 0;
    if (windows) continue;
    INFO(model.name);
    ++models;
    const ParameterCount count = parameter_count(model);
    // A tied table is the output layer; otherwise looking up a row takes no FLOPs. Norms and biases take few.
    const auto parameters = static_cast<double>(count.attention + count.mlp + model.vocab_size * model.hidden_size);
    for (const std::int64_t tokens : {2048, 8192}) {
      const double scores =
          12.0 * static_cast<double>(model.num_layers * model.num_attention_heads * model.head_dim * tokens);
      const double full = model_flops_per_token(model, tokens, FlopsConvention::model_full_attn);
      CHECK(full == Approx(6 * parameters + scores).epsilon(1e-3));
      CHECK(full - model_flops_per_token(model, tokens, FlopsConvention::model_causal) == Approx(scores / 2));
    }
  }
  CHECK(models >= 15);
}

TEST_CASE("sanity: goodput rises with the time between failures, spares and faster storage, within its error",
          "[reliability][property]") {
  GoodputRequest job;
  job.scenario = shipped_scenario("llama3-405b-16k");
  const ForecastRun step = forecast(job.scenario).value();
  job.step = &step;
  job.find_best_interval = false;
  job.options = {.min_histories = 32, .max_histories = 32, .half_width = 0, .progress = {}};
  struct Point {
    double mtbf_hours;
    std::vector<std::string> overrides;
  };
  const std::vector<std::vector<Point>> rising{
      {{0.5, {}}, {1, {}}, {3, {}}, {10, {}}, {100, {}}},
      {{3, {"recovery.spares=2"}},
       {3, {"recovery.spares=8"}},
       {3, {"recovery.spares=16"}},
       {3, {"recovery.spares=64"}}},
      {{3, {"checkpoint.mode=sync"}}, {3, {"checkpoint.mode=async"}}},
      {{3, {"recovery.repair=48 h", "recovery.spares=8"}}, {3, {"recovery.repair=6 h", "recovery.spares=8"}}}};
  for (const std::vector<Point>& points : rising) {
    Estimate before;
    for (const Point& point : points) {
      job.failures =
          read_failure_file(shipped_data().scenarios / "failures" / "llama3-54-days.json", point.overrides).value();
      job.mtbf_s = point.mtbf_hours * 3600;
      const Estimate now = forecast_goodput(job).value().goodput.goodput;
      CAPTURE(point.mtbf_hours, point.overrides, before.mean, now.mean);
      CHECK(now.high >= before.low);
      CHECK(now.mean < 1);
      if (&point == &points.back()) CHECK(now.mean > before.mean);
      before = now;
    }
  }
}

TEST_CASE("sanity: faults must be possible on the machine that --set leaves", "[io][error]") {
  const auto refused = [](const std::vector<std::string>& overrides) {
    return error_text(cli::read_with_topology("llama3-405b-16k", overrides));
  };
  CHECK(refused({"topology.node.nics=2", "perturb.lost_rails=[1]"}) == "");
  CHECK(refused({"topology.node.nics=2", "perturb.lost_rails=[0,1]"}) == "--set: perturb.lost_rails: leaves no NIC");
  CHECK(refused({"topology.node.nics=2", "perturb.lost_rails=[5]"}) ==
        "--set: perturb.lost_rails: names rail 5; hosts have NICs 0 to 1");
  CHECK(refused({"topology.node.nics=1", "perturb.slow_nic.3.0=0"}) ==
        "--set: perturb.slow_nic: leaves a host of node 3 no NIC");
  // NIC 0 is lost on every host already: NIC 1 of node 3 is left.
  CHECK(refused({"topology.node.nics=2", "perturb.lost_rails=[0]", "perturb.slow_nic.3.0=0"}) == "");
  CHECK(refused({"topology.node.nics=4", "perturb.slow_nic.3.6=0.5"}) ==
        "--set: perturb.slow_nic: names NIC 6; a node has NICs 0 to 3");
  CHECK(refused({"topology.fabric.tiers.rack.name=row", R"(perturb.lost_uplinks={"rack":0.5})"}) ==
        "--set: perturb.lost_uplinks: names rack, which is not a tier with uplinks");
}
