// Terms of a forecast that are small on most machines: each is made large here, and compared with its value by hand.
#include <map>

#include <catch2/catch.hpp>

#include "sim/forecast/axis_bandwidth.hpp"
#include "sim/forecast/colocated.hpp"
#include "sim/forecast/engine_step_times.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "sim/io/scenario_document.hpp"
#include "sim/network/host_collectives.hpp"
#include "sim/network/parameter_server.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/sharding.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"
#include "tools/sweep_predict.hpp"

using namespace tracecast;
using tracecast::test::small_scenario;

namespace {

Forecast of(const Scenario& scenario) { return forecast(scenario).value().forecast; }

/// The collectives that rank 0 issues for `traffic` after its micro-batches, one entry per call.
std::vector<std::int64_t> sizes_of(const ForecastRun& run, Traffic traffic, Phase phase) {
  std::vector<std::int64_t> sizes;
  for (const ProgramItem& item : run.graph.programs[0]) {
    const Template& used = run.graph.templates[static_cast<std::size_t>(item.template_index)];
    if (used.phase != phase) continue;
    for (const Op& op : used.ops)
      if (op.type == OpType::collective)
        if (const auto& call = run.graph.collectives[static_cast<std::size_t>(op.payload)]; call.traffic == traffic)
          sizes.push_back(call.call.size.count);
  }
  return sizes;
}

/// Two nodes of four ranks each whose groups share eight NICs of 50 GB/s.
GroupPlacement two_nodes() {
  GroupPlacement group;
  group.ranks = 8;
  group.nodes = 2;
  group.ranks_per_node = 4;
  group.nics = 4;
  group.nics_per_rank = 1;
  group.ring_end_nics = 1;
  return group;
}

}  // namespace

TEST_CASE("a parameter server has all NICs of its node, a worker its share", "[oracle][network]") {
  const Cluster cluster = shipped_topology("dgx-h100");
  REQUIRE(cluster.node.nics == 8);
  REQUIRE(cluster.node.nic_rate.bytes_per_second == 50'000'000'000);
  const ParameterServers setup = parameter_servers(cluster, two_nodes(), 1);
  CHECK(setup.server_rate == 8 * 50e9);
  CHECK(setup.worker_rate == 50e9);
  // 8 workers of 1 GB into 400 GB/s.
  CHECK(service_s(setup, Bytes{1'000'000'000}) == Approx(8 / 400.0));
}

TEST_CASE("MPI and gloo between nodes run at the NICs' rate, not PCIe's", "[oracle][network]") {
  Cluster cluster = shipped_topology("dgx-h100");
  cluster.backend = Backend::mpi;
  const CollectiveCall call{Collective::all_gather, Bytes{80'000'000'000}};
  const auto between = [&](double nic_gb_s) {
    cluster.node.nic_rate = {static_cast<std::int64_t>(nic_gb_s * 1e9)};
    return seconds(host_collective(cluster, call, two_nodes()).duration);
  };
  // Each of 8 ranks sends 7/8 of 80 GB through a NIC of its own; latencies are microseconds.
  CHECK(between(10) == Approx(7.0).epsilon(1e-3));
  CHECK(between(5) == Approx(14.0).epsilon(1e-3));
  cluster.backend = Backend::gloo;
  CHECK(between(0.5) > 140);
}

TEST_CASE("MPI: one rank of a node sends out of it, over the one NIC that all ranks of the node share",
          "[oracle][network]") {
  Cluster cluster = shipped_topology("dgx-h100");
  cluster.backend = Backend::mpi;
  cluster.node.nics = 1;
  cluster.node.nic_rate = {12'500'000'000};
  cluster.world_size = 64;
  const auto time = [&](Collective collective) {
    return seconds(host_collective(cluster, {collective, Bytes{80'000'000'000}}, place_world(cluster)).duration);
  };
  // 2 (n-1)/n of the buffer pass through the NIC of every node once.
  CHECK(time(Collective::all_reduce) == Approx(2 * 63.0 / 64 * 80 / 12.5).epsilon(1e-3));
  // To every other rank from each: the eight ranks of a node share the NIC.
  CHECK(time(Collective::all_to_all) == Approx(8 * 63.0 / 64 * 80 / 12.5).epsilon(1e-3));
}

TEST_CASE("a job of several GPUs fits if the smallest memory does", "[oracle][forecast]") {
  Scenario scenario = small_scenario(1, 1, 8);
  Profile small = scenario.profile;
  small.memory = Bytes{7'000'000'000};
  Profile smaller = small;
  smaller.memory = Bytes{5'000'000'000};
  scenario.perturbation.gpus = {{{1, 1}, "", smaller}, {{2, 2}, "", small}};
  CHECK(of(scenario).memory_capacity == smaller.memory);
  scenario.perturbation.gpus = {{{1, 1}, "", small}, {{2, 2}, "", smaller}};
  CHECK(of(scenario).memory_capacity == smaller.memory);
}

TEST_CASE("MFU of mixed GPUs is against the sum of their peaks", "[oracle][forecast]") {
  Scenario scenario = small_scenario(1, 1, 4);
  const Forecast alike = of(scenario);
  Profile half = scenario.profile;
  for (auto& [precision, flops] : half.peak_flops) flops /= 2;
  scenario.perturbation.gpus = {{{1, 2}, "", half}};
  const Forecast mixed = of(scenario);
  CHECK(mixed.step_time_s > alike.step_time_s);
  // The same work against (1 + 1/2 + 1/2 + 1) / 4 of the peak.
  CHECK(mixed.mfu == Approx(alike.mfu * alike.step_time_s / mixed.step_time_s / 0.75).epsilon(1e-9));
}

TEST_CASE("HFU counts every recomputed FLOP once", "[oracle][forecast]") {
  Scenario scenario = small_scenario(1, 1, 1);
  scenario.training.recompute = Recompute::none;
  const Forecast plain = of(scenario);
  CHECK(plain.hfu == plain.mfu);
  scenario.training.recompute = Recompute::full;
  const Forecast full = of(scenario);
  // Layers are run forwards once more; a step is three times forwards, of layers (24 b s h^2-like terms) and of the output
  // layer, which is not recomputed: 2 s h V of it.
  const Training& t = scenario.training;
  const double model_flops =
      plain.tokens_per_step * training_flops_per_token(scenario.model, t, plain.flops_convention);
  const double output = 3 * 2 * plain.tokens_per_step * static_cast<double>(scenario.model.hidden_size) *
                        static_cast<double>(scenario.model.vocab_size);
  CHECK(full.hfu / full.mfu == Approx(1 + (model_flops - output) / 3 / model_flops).epsilon(1e-3));
}

TEST_CASE("HFU leaves out what dropped copies of tokens do not compute", "[oracle][forecast]") {
  Scenario scenario = shipped_scenario("deepseek-v3-2048", {"training.recompute=none"});
  scenario.training.expert_capacity_factor = 0.5;
  const Forecast f = of(scenario);
  const Model& model = scenario.model;
  const double experts =
      6.0 * 59 * 8 * 3 * 7168 * 2048;  // 8 experts of three matrices in 58 layers and in the prediction layer
  CHECK(expert_flops_per_token(model, scenario.training) == Approx(experts));
  const double all = training_flops_per_token(model, scenario.training, f.flops_convention);
  scenario.training.expert_capacity_factor = 1;
  const Forecast whole = of(scenario);
  CHECK(whole.hfu / whole.mfu - f.hfu / f.mfu == Approx(0.5 * experts / all).epsilon(1e-3));
}

TEST_CASE("tied embeddings of two stages are added up once a step", "[oracle][graph]") {
  Scenario scenario = small_scenario(1, 2, 1);
  CHECK(sizes_of(forecast(scenario).value(), Traffic::embedding, Phase::optimizer).empty());
  scenario.model.tied_embeddings = true;
  const ForecastRun run = forecast(scenario).value();
  // Gradients of V x h in fp32.
  CHECK(sizes_of(run, Traffic::embedding, Phase::optimizer) == std::vector<std::int64_t>{1024 * 1024 * 4});
}

/// DeepSeek-V3 in 16 bits.
Scenario latent_on_two_tensor_ranks() {
  return shipped_scenario(
      "deepseek-v3-2048",
      {"parallel.tp=2", "parallel.sequence_parallel=true", "parallel.pp=4", "parallel.pp_layout=[16,16,16,13]",
       "parallel.pp_schedule=1f1b", "parallel.ep=8", "parallel.etp=1", "parallel.dp=8", "cluster.world_size=64",
       "training.global_batch_size=64", "training.dtype=bf16", "training.low_precision_activations=[]",
       "training.recompute_modules=[]"});
}

TEST_CASE("with sequence parallelism gradients of what all tensor ranks hold are summed", "[oracle][graph]") {
  Scenario scenario = small_scenario(2, 1, 1);
  const auto summed = [&] {
    const std::vector<std::int64_t> sizes =
        sizes_of(forecast(scenario).value(), Traffic::tensor_parallel, Phase::optimizer);
    REQUIRE(sizes.size() == 1);
    return sizes.front();
  };
  // Two norms of h weights in 8 layers and the last one, fp32; layer norms have a bias as well.
  CHECK(summed() == (8 * 2 + 1) * 1024 * 4);
  scenario.model.norm_bias = true;
  CHECK(summed() == (8 * 4 + 2) * 1024 * 4);
  // Latent attention: both compressing matrices with their norms; experts: the router.
  const Scenario latent = latent_on_two_tensor_ranks();
  const ForecastRun run = forecast(latent).value();
  const std::int64_t layer = 2 * 7168 + 7168 * (1536 + 512 + 64) + 1536 + 512, router = (7168 + 1) * 256;
  std::int64_t layers = 0, experts = 0;
  const Stage& first = run.plan.stages.front();
  for (int i = first.first_layer; i < first.first_layer + first.num_layers; ++i) {
    ++layers;
    experts += latent.model.is_moe_layer(i) ? 1 : 0;
  }
  CHECK(sizes_of(run, Traffic::tensor_parallel, Phase::optimizer).front() == (layers * layer + experts * router) * 4);
}

TEST_CASE("with sequence parallelism tensor ranks gather latent vectors, not the hidden state", "[oracle][graph]") {
  const Scenario scenario = latent_on_two_tensor_ranks();
  const std::vector<std::int64_t> sizes =
      sizes_of(forecast(scenario).value(), Traffic::tensor_parallel, Phase::forward);
  // Queries' and keys' ranks and the rotated part, then the sums of the projection; of 4,096 tokens in 16 bits.
  const std::int64_t token = 2 * scenario.training.seq_length * scenario.training.micro_batch_size;
  std::vector<std::int64_t> layer{1536 * token, 512 * token, 64 * token, 7168 * token};
  CHECK(std::ranges::search(sizes, layer).size() == layer.size());
}

/// Calls of collectives that rank 0 issues in the passes of a phase.
std::int64_t calls_of(const ForecastRun& run, Traffic traffic, Phase phase) {
  return static_cast<std::int64_t>(sizes_of(run, traffic, phase).size());
}

TEST_CASE("FSDP gathers no frozen layer for a backward, and reduces each layer in one piece", "[graph][lora]") {
  const std::vector<std::string> sharded{"parallel.zero_stage=3", "training.global_batch_size=8"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sharded.begin(), sharded.end());
    return forecast(shipped_scenario("p5-llama2-7b-8", more)).value();
  };
  // 32 layers; the embedding and the output layer are gathered once.
  const ForecastRun whole = run({});
  CHECK(calls_of(whole, Traffic::parameters, Phase::forward) == 34);
  CHECK(calls_of(whole, Traffic::parameters, Phase::backward) == 32);
  CHECK(calls_of(whole, Traffic::gradients, Phase::backward) == 34);
  CHECK(calls_of(run({"parallel.ddp_bucket_size=1000000"}), Traffic::gradients, Phase::backward) == 34);
  const ForecastRun frozen = run({"training.frozen_fraction=0.75"});
  CHECK(calls_of(frozen, Traffic::parameters, Phase::forward) == 34);
  CHECK(calls_of(frozen, Traffic::parameters, Phase::backward) == 8);
  CHECK(calls_of(frozen, Traffic::gradients, Phase::backward) == 9);
}

/// Bytes of each parameter that the update moves.
double update_bytes(const std::vector<std::string>& overrides) {
  const ForecastRun run = forecast(shipped_scenario("p5-llama2-7b-8", overrides)).value();
  for (const Template& each : run.graph.templates)
    for (const Op& op : each.ops)
      if (op.type == OpType::compute && op.payload >= 0)
        if (const Operator& work = run.graph.operators[static_cast<std::size_t>(op.payload)].op; work.name == "update")
          return static_cast<double>(std::get<ElementwiseShape>(work.shape).traffic.count) /
                 static_cast<double>(std::get<ElementwiseShape>(work.shape).elements);
  return 0;
}

TEST_CASE("an update without master weights moves 16-bit values and states", "[oracle][graph]") {
  CHECK(update_bytes({}) == 30);
  CHECK(update_bytes({"training.master_weights=false", "training.grad_reduce_dtype=bf16"}) == 14);
  CHECK(update_bytes({"training.master_weights=false", "training.grad_reduce_dtype=fp32"}) == 16);
}

TEST_CASE("multiplications add weight gradients to fp32 ones, but not FSDP's", "[oracle][plan]") {
  const Training training{.grad_reduce_dtype = Precision::fp32};
  CHECK(multiplication_adds({}, training));
  CHECK_FALSE(multiplication_adds({.zero_stage = 3}, training));
  CHECK(multiplication_adds({.zero_stage = 3, .data_parallel = DataParallelKind::deepspeed}, training));
}

TEST_CASE("DiLoCo's outer states stay on the GPU beside an optimizer on the host", "[oracle][plan]") {
  const auto optimizer = [](const char* outer) {
    const Scenario scenario =
        shipped_scenario("diloco-10b", {"training.offload_optimizer=true", "parallel.averaging_bits=32",
                                        std::string("parallel.outer_optimizer=") + outer});
    return of(scenario).memory.front().optimizer;
  };
  CHECK(optimizer("nesterov") > optimizer("none"));
}

TEST_CASE("a step that takes more picoseconds than there are is refused", "[error][forecast]") {
  CHECK(from_seconds(1e9) == kLongestDuration);
  const auto error_of = [](const char* name, const std::vector<std::string>& changes) {
    return error_text(forecast(cli::read_with_topology(name, changes).value()));
  };
  const std::string of_one_rank = "days of work for one rank (allowed: 1 day)";
  for (const std::string rate : {"1 B/s", "10 B/s", "1 kB/s"}) {
    CAPTURE(rate);
    CHECK(error_of("llama2-7b-abci", {"topology.node.nic_rate=" + rate}).ends_with(of_one_rank));
    // Where only messages of the pipeline leave a node.
    CHECK(error_of("llama3-405b-16k", {"cluster.world_size=128", "parallel.dp=1", "training.global_batch_size=8",
                                       "topology.node.nic_rate=" + rate})
              .ends_with(of_one_rank));
  }
  // A single micro-batch goes through 128 ranks of 0.9 days each, one after the other.
  CHECK(
      error_of("korthikanti-1t-full", {"cluster.world_size=1024", "parallel.pp=128", "training.global_batch_size=1",
                                       "topology.node.gpu_link=25 kB/s"})
          .ends_with(": a step has 113 days of work for 128 pipeline ranks, which may wait for each other (allowed: 20 "
                     "days)"));
}

TEST_CASE("with fp32 the output layer, the router and adapters are multiplied in fp32", "[oracle][graph]") {
  const auto multiplications = [](const std::vector<std::string>& changes) {
    std::map<std::string, Precision> found;
    const ForecastRun run = forecast(shipped_scenario("p5-llama2-7b-8", changes)).value();
    for (const CostedOperator& each : run.graph.operators)
      if (each.op.kind == OperatorKind::gemm) found[each.op.name] = each.op.precision;
    return found;
  };
  std::vector<std::string> changes{"model=mixtral-8x7b", "parallel.ep=8", "training.dtype=fp32"};
  const auto check_fp32 = [](const std::map<std::string, Precision>& found, const std::string& name) {
    INFO(name);
    REQUIRE(found.contains(name));
    CHECK(found.at(name) == Precision::fp32);
  };
  for (const char* name : {"lm_head", "router"}) check_fp32(multiplications(changes), name);
  changes.emplace_back("training.lora_rank=16");
  for (const char* name : {"qkv lora_a", "qkv lora_b"}) check_fp32(multiplications(changes), name);
}

TEST_CASE("hashed routing needs a fabric that connects its rails", "[error][network]") {
  Scenario scenario = shipped_scenario("data-parallel-gpt2", {"cluster.topology=dgx-h100", "cluster.world_size=16"});
  scenario.cluster.tiers.resize(1);
  scenario.cluster.tiers[0].nodes = 0;
  scenario.cluster.routing = RoutingPolicy::ecmp;
  const Result<ForecastRun> run = forecast(scenario);
  REQUIRE_FALSE(run);
  CHECK(run.error().diagnostics.front().message ==
        "needs a tier of the fabric above the leaves, which connects rails (allowed: with one tier, even)");
}

TEST_CASE("a link latency of zero is a latency, and shorter than another", "[oracle][network]") {
  const auto link = [](const char* latency) {
    return read_topology(shipped_data().topologies / "dgx-h100.json", {std::string("node.link_latency=") + latency})
        .value()
        .reference.link;
  };
  CHECK(link("0 us") == link("1 us"));
  CHECK(link("1 us").has_value());
}

TEST_CASE("co-located jobs run on the machine of the first", "[oracle][network]") {
  std::vector<Scenario> jobs{shipped_scenario("p5-llama2-7b-8"), shipped_scenario("p5-llama2-7b-8")};
  jobs[0].cluster.node.nic_rate.bytes_per_second /= 2;
  REQUIRE(jobs[0].cluster.node.nic_rate != jobs[1].cluster.node.nic_rate);
  REQUIRE(assign_nodes(jobs, JobPlacement::compact));
  CHECK(jobs[1].cluster.node.nic_rate == jobs[0].cluster.node.nic_rate);
}

TEST_CASE("faults of co-located jobs: NICs of their own nodes, rails and uplinks of the machine", "[oracle][network]") {
  using SlowNics = std::vector<NetworkFaults::SlowNic>;
  const auto jobs = [](JobPlacement placement) {
    std::vector<Scenario> both{small_scenario(1, 1, 16), small_scenario(1, 1, 16)};
    both[0].cluster.faults.slow_nics = {{1, 3, 0.5}};
    both[1].cluster.faults.slow_nics = {{0, 2, 0.1}};
    both[0].cluster.faults.lost_rails = {5};
    both[1].cluster.faults.lost_rails = {4};
    const std::string tier = both[0].cluster.tiers.front().name;
    both[0].cluster.faults.lost_uplinks[tier] = 0.25;
    both[1].cluster.faults.lost_uplinks[tier] = 0.5;
    REQUIRE(assign_nodes(both, placement));
    for (const Scenario& each : both) {
      CHECK(each.cluster.faults.lost_rails == std::vector<int>{4, 5});
      CHECK(each.cluster.faults.lost_uplinks.at(tier) == 0.5);
      CHECK(each.cluster.faults.slow_nics == both[0].cluster.faults.slow_nics);
      CHECK(each.cluster.faults.missing_gpus.size() == 2);
    }
    return both[0].cluster.faults.slow_nics;
  };
  CHECK(jobs(JobPlacement::interleaved) == SlowNics{{2, 3, 0.5}, {1, 2, 0.1}});
  CHECK(jobs(JobPlacement::compact) == SlowNics{{1, 3, 0.5}, {2, 2, 0.1}});
}

TEST_CASE("a slow NIC of a co-located job slows that job, and is no part of its undisturbed step",
          "[oracle][network]") {
  Scenario one = small_scenario(1, 1, 16);
  one.parallel.zero_stage = 3;
  Scenario slow = one;
  slow.cluster.faults.slow_nics = {{1, 0, 0.1}};
  slow.perturbation.slow_ranks = {{{0, 0}, 1.5}};
  const auto of_both = [](const Scenario& first, const Scenario& second) {
    return forecast_colocated(first, {second}, {.network = NetworkKind::fluid}).value().forecast;
  };
  const Forecast healthy = of_both(one, one);
  const Forecast first_slow = of_both(slow, one);
  const Forecast second_slow = of_both(one, slow);
  CHECK(first_slow.step_time_s > 1.2 * healthy.step_time_s);
  CHECK(second_slow.co_located.front().step_s == first_slow.step_time_s);
  CHECK(second_slow.step_time_s == first_slow.co_located.front().step_s);
  CHECK(second_slow.perturbations.size() == 1);
  // Without the other job, and without its own perturbations.
  REQUIRE(first_slow.perturbations.size() == 3);
  CHECK(first_slow.perturbations[0].step_without_s > 1.2 * healthy.step_time_s);
  CHECK(first_slow.perturbations[1].what == "rank 0 computes 1.5 times as long");
  CHECK(first_slow.perturbations[2].what == "NIC 0 of node 1 runs at 10 %");
  CHECK_FALSE(first_slow.perturbations[2].step_without_s.has_value());
  CHECK(first_slow.undisturbed_step_s == healthy.undisturbed_step_s);
}

TEST_CASE("an all-to-all sends what is for other nodes over the network", "[oracle][bandwidth]") {
  Scenario scenario = shipped_scenario("deepseek-v3-2048", {"parallel.moe_dispatcher=alltoall"});
  const Forecast f = of(scenario);
  const int ep = scenario.parallel.ep, inside = scenario.cluster.node.gpus;
  double sent_inside = 0, sent_outside = 0;
  for (const AxisBandwidth& row : f.bandwidth) {
    if (row.axis != "ep") continue;
    REQUIRE(row.ranks == ep);
    (row.link == "network" ? sent_outside : sent_inside) += row.sent_bytes;
  }
  REQUIRE(ep > inside);
  CHECK(sent_outside / (sent_inside + sent_outside) == Approx(static_cast<double>(ep - inside) / (ep - 1)));
}

TEST_CASE("a lost rail, a slow link and a slow uplink lengthen a step that waits for the network", "[forecast]") {
  Scenario scenario = small_scenario(1, 1, 32);
  scenario.parallel.zero_stage = 3;
  scenario.cluster.node.nic_rate = {200'000'000};
  scenario.cluster.tiers = {{"leaf", 2, 1, {}}, {"spine", 0, 1, {}}};
  REQUIRE(scenario.cluster.node.nics == 8);
  const EngineStepTimes steps(scenario);
  const auto time = [&](const MachineState& state) { return seconds(steps.of(state).value().time); };
  const double healthy = time({});
  // Nearly all of the step is transfers between nodes.
  CHECK(time({.lost_rails = 1}) == Approx(healthy * 8 / 7).epsilon(0.05));
  CHECK(time({.link_speed_percent = 50}) == Approx(2 * healthy).epsilon(0.05));
  CHECK(time({.uplink_speed_percent = 10}) > 2 * healthy);
}

TEST_CASE("degraded machines: slow NICs do not slow the links between sites", "[oracle][forecast]") {
  const Scenario scenario = shipped_scenario("llama3-70b-two-sites");
  const EngineStepTimes steps(scenario);
  const auto time = [&](const MachineState& state) { return seconds(steps.of(state).value().time); };
  const double healthy = time({});
  CHECK(time({.link_speed_percent = 50}) < 1.2 * healthy);  // most of its traffic is between the sites
  CHECK(time({.uplink_speed_percent = 50}) > 1.2 * healthy);
}
