// Requirements on FSDP and ZeRO. Sources: docs/references.md#bytes-per-parameter, docs/references.md#fsdp-variants,
// docs/references.md#data-parallel-traffic
#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/io/files.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/report/terminal.hpp"
#include "tests/requirements/model_states_gb.hpp"
#include "tests/support/models.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// Bytes per parameter as the AWS P5 guide counts them: 2 weights, 2 gradients, 4 optimizer.
Training eight_bytes() {
  return {.seq_length = 4096, .global_batch_size = 8, .grad_reduce_dtype = Precision::bf16, .master_weights = false};
}

/// One micro-batch per rank on 8 ranks, all of one node.
Scenario eight_ranks(ShardingStrategy strategy, int shard_group = 0) {
  Scenario scenario = small_scenario(1, 1, 8);
  scenario.training.global_batch_size = 8;
  scenario.parallel.sharding_strategy = strategy;
  scenario.parallel.shard_group = shard_group;
  return scenario;
}

/// In units of the bytes of all weights (2 per parameter) or gradients (4).
struct Moved {
  double gathered = 0;
  double scattered = 0;
  double reduced = 0;
};

Moved moved(const Scenario& scenario) {
  const ForecastRun run = forecast(scenario).value();
  const std::vector<TrafficCount> counts = count_traffic(run.graph, 0);
  const double n = static_cast<double>(parameter_count(scenario.model).total());
  const auto units = [&](Traffic traffic, Collective collective, double bytes) {
    return static_cast<double>(total_of(counts, traffic, collective).size.count) / (bytes * n);
  };
  return {units(Traffic::parameters, Collective::all_gather, 2),
          units(Traffic::gradients, Collective::reduce_scatter, 4),
          units(Traffic::gradients, Collective::all_reduce, 4)};
}

/// Embedding and output layer: what FSDP's root keeps.
double root_share(const Model& model) {
  const double root = static_cast<double>(2 * model.vocab_size * model.hidden_size + model.hidden_size);
  return root / static_cast<double>(parameter_count(model).total());
}

MemoryByKind states(ShardingStrategy strategy, int shard_group = 0) {
  const ForecastRun run = forecast(eight_ranks(strategy, shard_group)).value();
  return run.forecast.memory.front();
}

}  // namespace

TEST_CASE("each layer is gathered, computed, freed; backward: gathered, computed, reduced, freed",
          "[row-3-2][requirements][graph]") {
  Scenario scenario = small_scenario(1, 1, 4);
  scenario.parallel.sharding_strategy = ShardingStrategy::full_shard;
  scenario.training.global_batch_size = 4;
  const StepGraph graph = forecast(scenario).value().graph;
  const Template& forward = graph.templates[static_cast<std::size_t>(graph.programs[0][1].template_index)];
  const Template& backward = graph.templates[static_cast<std::size_t>(graph.programs[0][2].template_index)];
  REQUIRE(forward.phase == Phase::forward);
  REQUIRE(backward.phase == Phase::backward);
  // The events that gathers record, in order of issue, and the order in which the compute stream waits for them.
  const auto order = [&graph](const Template& pass) {
    std::vector<EventRef> gathered;
    std::vector<std::size_t> waited;
    for (const Op& op : pass.ops) {
      if (op.type == OpType::collective &&
          graph.collectives[static_cast<std::size_t>(op.payload)].traffic == Traffic::parameters) {
        gathered.push_back(op.records);
        // Two gathers are in flight at most: the third waits until the first unit is computed and freed.
        if (gathered.size() > 2) CHECK(op.waits.size() == 1);
        CHECK(gathered.size() <= waited.size() + 2);
      }
      for (std::size_t i = 0; i < gathered.size(); ++i)
        if (op.type == OpType::compute && std::count(op.waits.begin(), op.waits.end(), gathered[i]) > 0)
          waited.push_back(i);
    }
    CHECK(std::is_sorted(waited.begin(), waited.end()));
    CHECK(waited.size() == gathered.size());
    return gathered.size();
  };
  CHECK(order(forward) == 10);  // embedding, 8 layers, output layer
  CHECK(order(backward) == 8);  // the root is still there
  const auto reductions = std::count_if(backward.ops.begin(), backward.ops.end(), [&graph](const Op& op) {
    return op.type == OpType::collective &&
           graph.collectives[static_cast<std::size_t>(op.payload)].call.collective == Collective::reduce_scatter;
  });
  CHECK(reductions == 10);
}

TEST_CASE("FULL_SHARD divides parameters, gradients and optimizer states by the ranks",
          "[row-3-3][row-3-4][requirements][memory]") {
  for (const int ranks : {2, 4, 8, 64}) {
    const MemoryByKind whole = model_states(64'000'000, eight_bytes(), 0, ranks);
    const MemoryByKind shard = model_states(64'000'000, eight_bytes(), 3, ranks);
    CHECK(shard.weights * ranks == whole.weights);
    CHECK(shard.gradients * ranks == whole.gradients);
    CHECK(shard.optimizer * ranks == whole.optimizer);
  }
}

TEST_CASE("Llama 3 70B needs 560 GB with DDP and 70 GB over eight ranks", "[row-3-5][row-3-6][requirements][memory]") {
  const MemoryByKind ddp = model_states(70'000'000'000, eight_bytes(), 0, 8);
  CHECK(gb(ddp.weights) == 140);
  CHECK(gb(ddp.gradients) == 140);
  CHECK(gb(ddp.optimizer) == 280);
  CHECK(gb(ddp.total()) == 560);
  const MemoryByKind fsdp = model_states(70'000'000'000, eight_bytes(), 3, 8);
  CHECK(gb(fsdp.weights) == 17.5);
  CHECK(gb(fsdp.gradients) == 17.5);
  CHECK(gb(fsdp.optimizer) == 35);
  // With the exact count of parameters.
  const MemoryByKind exact = model_states(parameter_count(llama3_70b()).total(), eight_bytes(), 0, 8);
  CHECK(gb(exact.weights) == Approx(141.1).epsilon(1e-3));
  CHECK(gb(exact.optimizer) == Approx(282.2).epsilon(1e-3));
}

TEST_CASE("70B on eight H100 does not fit, neither with 16 bytes per parameter nor with 8 and activations",
          "[row-3-7][requirements][memory]") {
  const Scenario sixteen = shipped_scenario("llama3-70b-fsdp-8");
  const Forecast full = forecast(sixteen).value().forecast;
  CHECK_FALSE(full.fits);
  const MemoryByKind& memory = full.memory.front();
  CHECK(gb(memory.weights + memory.gradients + memory.optimizer) == Approx(141.1).epsilon(1e-3));
  const Forecast eight =
      forecast(shipped_scenario("llama3-70b-fsdp-8", {"training.master_weights=false"})).value().forecast;
  CHECK_FALSE(eight.fits);
  // The states alone would fit: it is the activations that do not.
  const MemoryByKind& less = eight.memory.front();
  CHECK(gb(less.weights + less.gradients + less.optimizer) == Approx(70.55).epsilon(1e-3));
  CHECK(less.weights + less.gradients + less.optimizer < eight.memory_capacity);
}

TEST_CASE("memory is (P + G + O) / N + activations, and transients on top", "[row-3-8][requirements][memory]") {
  const Forecast result = forecast(shipped_scenario("llama3-70b-fsdp-8")).value().forecast;
  const MemoryByKind& memory = result.memory.front();
  const MemoryByKind states =
      model_states(parameter_count(llama3_70b()).total(), shipped_scenario("llama3-70b-fsdp-8").training, 3, 8);
  const Bytes bound = states.weights + states.gradients + states.optimizer + memory.activations;
  CHECK(gb(bound) == Approx(gb(memory.total() - memory.transient - memory.fixed - memory.fragmentation)));
  CHECK(memory.transient > Bytes{0});
}

TEST_CASE("70B moves 122.5 GB per gather, 245 GB in a step without resharding, 367.5 GB with",
          "[row-3-10][row-3-11][requirements][graph]") {
  // The AWS P5 guide's numbers with its 70e9 parameters of 2 bytes; ring factor 7/8.
  CHECK(bus_bandwidth(Collective::all_gather, 8, Bytes{140'000'000'000}, from_seconds(1)) == 122.5e9);
  CHECK(bus_bandwidth(Collective::reduce_scatter, 8, Bytes{140'000'000'000}, from_seconds(1)) == 122.5e9);
  // The step graph of the exact model: 141.1 GB of weights, 16-bit gradients.
  const double whole = 2.0 * static_cast<double>(parameter_count(llama3_70b()).total());
  const auto sent = [](const std::vector<std::string>& overrides) {
    double sum = 0;
    for (const TrafficCount& each :
         count_traffic(forecast(shipped_scenario("llama3-70b-fsdp-8", overrides)).value().graph, 0))
      if (each.traffic != Traffic::control) sum += each.sent;
    return sum;
  };
  CHECK(sent({"parallel.reshard_after_forward=false"}) == Approx(2 * whole * 7 / 8));
  CHECK(sent({"parallel.reshard_root=true"}) == Approx(3 * whole * 7 / 8));
}

TEST_CASE("in a pipeline of PyTorch parameters are gathered once and gradients reduced once in a step",
          "[requirements][graph]") {
  Scenario scenario = small_scenario(1, 2, 4);
  scenario.parallel.zero_stage = 3;
  scenario.parallel.reshard_root = true;
  const auto sent = [&](Traffic traffic, int microbatches, bool torch) {
    scenario.parallel.torch_pipelining = torch;
    scenario.training.global_batch_size = 4 * microbatches;
    double sum = 0;
    for (const TrafficCount& each : count_traffic(forecast(scenario).value().graph, 0))
      if (each.traffic == traffic) sum += each.sent;
    return sum;
  };
  const double once = sent(Traffic::parameters, 4, true);
  CHECK(sent(Traffic::parameters, 8, true) == once);
  CHECK(sent(Traffic::parameters, 8, false) == Approx(16 * once));  // twice in each micro-batch
  CHECK(sent(Traffic::gradients, 8, true) == sent(Traffic::gradients, 4, true));
  CHECK(sent(Traffic::gradients, 8, false) == Approx(8 * sent(Traffic::gradients, 8, true)));
  // Without a pipeline it has no effect.
  scenario.parallel.pp = 1;
  CHECK(sent(Traffic::parameters, 8, true) == sent(Traffic::parameters, 8, false));
}

TEST_CASE("gradients of weights read no weights: a split backward gathers as often as a whole one",
          "[requirements][fsdp][oracle]") {
  const auto sent = [](const char* schedule, const char* zero_stage) {
    const Forecast f = forecast(shipped_scenario("pipeline-1f1b", {"parallel.dp=2", "cluster.world_size=8", zero_stage,
                                                                   std::string("parallel.pp_schedule=") + schedule}))
                           .value()
                           .forecast;
    double bytes = 0;
    for (const AxisBandwidth& row : f.bandwidth) bytes += row.axis == "dp" ? row.sent_bytes : 0;
    return bytes;
  };
  CHECK(sent("1f1b", "parallel.zero_stage=3") > sent("1f1b", "parallel.zero_stage=1"));
  CHECK(sent("zb-h1", "parallel.zero_stage=3") == sent("1f1b", "parallel.zero_stage=3"));
}

TEST_CASE("245 GB in a second are 1960 Gb/s of one GPU: a node's 3200 Gb/s are eight GPUs', and one node uses NVLink",
          "[row-3-12][requirements][bandwidth]") {
  // Eight ranks of one node: all of it over NVLink, nothing over the network.
  const ForecastRun node =
      forecast(shipped_scenario("llama3-70b-fsdp-8", {"parallel.reshard_after_forward=false"})).value();
  REQUIRE(node.forecast.bandwidth.size() == 1);
  CHECK(node.forecast.bandwidth.front().link == "nvlink");
  CHECK(node.forecast.bandwidth.front().sent_bytes == Approx(2 * 141.1e9 * 7 / 8).epsilon(1e-3));
  // Four nodes: what a GPU sends out is set against its 400 Gb/s, not against the node's 3200.
  const Scenario scenario = shipped_scenario("p5-llama3-70b-32");
  const ForecastRun nodes = forecast(scenario).value();
  const auto network = std::ranges::find(nodes.forecast.bandwidth, "network", &AxisBandwidth::link);
  REQUIRE(network != nodes.forecast.bandwidth.end());
  CHECK(8 * network->available == Approx(400e9));
  CHECK(network->ratio() == Approx(network->required / 50e9));
  const std::string page = terminal_page(scenario, nodes.plan, nodes.forecast, {.width = 110});
  CHECK(page.find("network: a node's 3,200 Gb/s are 400 GB/s for 8 GPUs, 50 GB/s for each") != std::string::npos);
  // A rack's NVLink domain has the NICs of all its hosts.
  const Scenario racks = shipped_scenario("deepseek-v3-2048", {"cluster.topology=gb200-nvl72"});
  const ForecastRun rack = forecast(racks).value();
  CHECK(terminal_page(racks, rack.plan, rack.forecast, {.width = 110})
            .find("network: a node's 25,600 Gb/s are 3200 GB/s for 64 GPUs, 50 GB/s for each") != std::string::npos);
}

TEST_CASE("a P5 node has 32 EFA links of 100 Gb/s, four per GPU", "[row-3-13][requirements][network]") {
  const Cluster p5 = shipped_topology("aws-p5");
  CHECK(p5.node.gpus == 8);
  CHECK(p5.node.nics == 32);
  CHECK(p5.node.nic_rate.bytes_per_second * p5.node.nics == 400'000'000'000);
}

TEST_CASE("resharding costs one gather of the layers and frees all of them but two",
          "[row-3-14][requirements][graph][memory]") {
  Scenario scenario = eight_ranks(ShardingStrategy::full_shard);
  const double root = root_share(scenario.model);
  const ForecastRun reshard = forecast(scenario).value();
  CHECK(moved(scenario).gathered == Approx(2 - root));  // FSDP2's default keeps the root
  scenario.parallel.reshard_root = true;
  CHECK(moved(scenario).gathered == Approx(2));
  scenario.parallel.reshard_root = false;
  scenario.parallel.sharding_strategy = ShardingStrategy::by_zero_stage;
  scenario.parallel.zero_stage = 3;
  scenario.parallel.reshard_after_forward = false;
  CHECK(moved(scenario).gathered == Approx(1));
  // Kept: root and all 8 layers, against root and two layers, 2 bytes each.
  const ForecastRun keep = forecast(scenario).value();
  const std::int64_t six_layers = 6 * layer_parameters(scenario.model, 0) * 2;
  CHECK(keep.forecast.memory[0].transient - reshard.forecast.memory[0].transient == Bytes{six_layers});
}

TEST_CASE("FSDP2's number reshards to smaller groups: memory between, traffic over the smaller group",
          "[row-3-14][requirements][graph][memory]") {
  Scenario scenario = eight_ranks(ShardingStrategy::full_shard);
  const ForecastRun plain = forecast(scenario).value();
  scenario.parallel.reshard_group = 2;
  const ForecastRun pairs = forecast(scenario).value();
  const std::int64_t layers = 8 * layer_parameters(scenario.model, 0);
  CHECK(pairs.forecast.memory[0].transient - plain.forecast.memory[0].transient == Bytes{layers * 2 / 2});
  // Forward over 8 ranks, backward over 2; states stay divided by 8.
  double forward = 0;
  double backward = 0;
  for (const TrafficCount& each : count_traffic(pairs.graph, 0)) {
    if (each.traffic != Traffic::parameters) continue;
    (each.slot == static_cast<std::int32_t>(Slot::resharded) ? backward : forward) += each.sent;
    CHECK(each.ranks == (each.slot == static_cast<std::int32_t>(Slot::resharded) ? 2 : 8));
  }
  CHECK(forward == Approx(2.0 * static_cast<double>(parameter_count(scenario.model).total()) * 7 / 8));
  CHECK(backward == Approx(2.0 * static_cast<double>(layers) / 2));
  CHECK(pairs.forecast.memory[0].optimizer == plain.forecast.memory[0].optimizer);
  // Folded and unfolded agree.
  CHECK(forecast(scenario, {.unfold = true}).value().timeline.step_time == pairs.timeline.step_time);
}

TEST_CASE("the strategies of FSDP move and hold what their formulas say",
          "[row-3-15][requirements][graph][memory][oracle]") {
  const double root = root_share(small_scenario(1, 1, 8).model);
  const std::int64_t n = parameter_count(small_scenario(1, 1, 8).model).total();
  const Moved full = moved(eight_ranks(ShardingStrategy::full_shard));
  CHECK(full.gathered == Approx(2 - root));
  CHECK(full.scattered == Approx(1));
  CHECK(full.reduced == 0);
  const Moved grad_op = moved(eight_ranks(ShardingStrategy::shard_grad_op));
  CHECK(grad_op.gathered == Approx(1));
  CHECK(grad_op.scattered == Approx(1));
  CHECK(grad_op.reduced == 0);
  const Moved none = moved(eight_ranks(ShardingStrategy::no_shard));
  CHECK(none.gathered == 0);
  CHECK(none.scattered == 0);
  CHECK(none.reduced == Approx(1));
  const Moved hybrid = moved(eight_ranks(ShardingStrategy::hybrid_shard, 4));
  CHECK(hybrid.gathered == Approx(2 - root));
  CHECK(hybrid.scattered == Approx(1));
  CHECK(hybrid.reduced == Approx(0.25));  // each rank's quarter, over the two replicas
  const Moved hybrid_keep = moved(eight_ranks(ShardingStrategy::hybrid_shard_zero2, 4));
  CHECK(hybrid_keep.gathered == Approx(1));
  // 4 weights, 4 gradients, 8 optimizer: FSDP's mixed precision. NO_SHARD holds 2 + 4 + 12.
  CHECK(states(ShardingStrategy::full_shard).weights == Bytes{4 * n / 8});
  CHECK(states(ShardingStrategy::shard_grad_op).optimizer == Bytes{8 * n / 8});
  CHECK(states(ShardingStrategy::shard_grad_op).gradients == Bytes{4 * n / 8});
  CHECK(states(ShardingStrategy::no_shard).weights == Bytes{2 * n});
  CHECK(states(ShardingStrategy::no_shard).optimizer == Bytes{12 * n});
  CHECK(states(ShardingStrategy::hybrid_shard, 4).weights == Bytes{4 * n / 4});
  CHECK(states(ShardingStrategy::hybrid_shard, 4).gradients == Bytes{4 * n / 4});
}

TEST_CASE(
    "HYBRID_SHARD on 4 x 8 sends 2 (3/4) S/8 per GPU between the nodes and beats FULL_SHARD on P5 where "
    "the links between nodes are the bottleneck",
    "[row-3-16][requirements][graph][network]") {
  // Short sequences: communication is the bottleneck.
  const std::vector<std::string> common{"training.seq_length=512", "training.global_batch_size=32",
                                        "training.recompute=none", "parallel.zero_stage=0", "parallel.shard_group=0"};
  const auto with = [&common](const std::string& strategy) {
    std::vector<std::string> overrides = common;
    overrides.push_back("parallel.sharding_strategy=" + strategy);
    return shipped_scenario("p5-llama2-13b-hybrid-32", overrides);
  };
  const Scenario hybrid_scenario = with("HYBRID_SHARD");
  CHECK(hybrid_scenario.parallel.shard_group == 8);  // the GPUs of a node
  const ForecastRun hybrid = forecast(hybrid_scenario).value();
  const double gradients = 4.0 * static_cast<double>(parameter_count(hybrid_scenario.model).total());
  double across = 0;
  for (const TrafficCount& each : count_traffic(hybrid.graph, 0)) {
    if (each.traffic == Traffic::control) continue;
    if (each.nodes > 1) across += each.sent;
    CHECK(each.ranks == (each.nodes > 1 ? 4 : 8));
  }
  CHECK(across == Approx(2 * 0.75 * gradients / 8));
  // FULL_SHARD sends more between the nodes. With all 3200 Gb/s of EFA that hardly matters for four nodes, if gathers
  // run beside reductions; over one communicator each collective waits for the one before it, which costs FULL_SHARD
  // more. With a quarter of the EFA links, or with 32 nodes, hybrid sharding wins clearly.
  const auto ratio = [&with](std::int64_t nic_share, int nodes, bool separate_gathers = false) {
    Scenario hybrid_run = with("HYBRID_SHARD");
    Scenario full_run = with("FULL_SHARD");
    for (Scenario* each : {&hybrid_run, &full_run}) {
      each->cluster.node.nic_rate.bytes_per_second /= nic_share;
      each->cluster.world_size = 8 * nodes;
      each->parallel.dp = 0;
      each->training.global_batch_size = 8 * nodes;
      each->training.grad_reduce_dtype = Precision::bf16;
      each->parallel.separate_gather_group = separate_gathers;
    }
    return forecast(hybrid_run).value().forecast.step_time_s / forecast(full_run).value().forecast.step_time_s;
  };
  CHECK(ratio(1, 4, true) == Approx(1).epsilon(0.1));
  CHECK(ratio(1, 4) == Approx(0.95).epsilon(0.03));
  CHECK(ratio(4, 4) < 0.9);
  CHECK(ratio(1, 32) < 0.9);
}

TEST_CASE("MixedPrecision(param bf16, reduce fp32) gathers 2 and reduces 4 bytes per parameter",
          "[row-3-17][requirements][graph]") {
  Scenario scenario = eight_ranks(ShardingStrategy::shard_grad_op);
  const auto bytes = [](const Scenario& each, Traffic traffic, Collective collective) {
    return total_of(count_traffic(forecast(each).value().graph, 0), traffic, collective).size.count;
  };
  const std::int64_t n = parameter_count(scenario.model).total();
  CHECK(bytes(scenario, Traffic::parameters, Collective::all_gather) == 2 * n);
  CHECK(bytes(scenario, Traffic::gradients, Collective::reduce_scatter) == 4 * n);
  scenario.training.grad_reduce_dtype = Precision::bf16;
  CHECK(bytes(scenario, Traffic::gradients, Collective::reduce_scatter) == 2 * n);
}

TEST_CASE("fp16 scales its loss and checks for overflow with an all-reduce more, bf16 does not",
          "[row-3-18][row-0-32][requirements][graph]") {
  Scenario scenario = small_scenario(1, 1, 8);
  const auto controls = [](const Scenario& each) {
    return total_of(count_traffic(forecast(each).value().graph, 0), Traffic::control, Collective::all_reduce).calls;
  };
  CHECK(controls(scenario) == 1);  // the gradient norm
  scenario.training.dtype = Precision::fp16;
  CHECK(controls(scenario) == 2);
}

TEST_CASE("FSDP and DeepSpeed's ZeRO-3 move equal bytes, in pieces of their own", "[row-0-8][requirements][graph]") {
  Scenario fsdp = eight_ranks(ShardingStrategy::full_shard);
  fsdp.parallel.reshard_root = true;
  Scenario zero = fsdp;
  zero.parallel.sharding_strategy = ShardingStrategy::by_zero_stage;
  zero.parallel.zero_stage = 3;
  zero.parallel.data_parallel = DataParallelKind::deepspeed;
  CHECK(moved(fsdp).gathered == 2);
  // DeepSpeed keeps tensors below its persistence threshold on every rank: 17 norms of h weights.
  const double norms = 17.0 * 1024 / static_cast<double>(parameter_count(zero.model).total());
  CHECK(moved(zero).gathered == Approx(2 - 2 * norms));
  CHECK(moved(fsdp).scattered == moved(zero).scattered);
  // FSDP gathers layer by layer; DeepSpeed collects gradients in buckets of 500 million elements.
  const auto reductions = [](const Scenario& scenario) {
    std::int64_t calls = 0;
    for (const TrafficCount& each : count_traffic(forecast(scenario).value().graph, 0))
      if (each.traffic == Traffic::gradients) calls += each.calls;
    return calls;
  };
  CHECK(reductions(fsdp) == 9);  // 8 layers, and the root: embedding and output layer
  CHECK(reductions(zero) < 8);
}
