// Bytes that each strategy moves, on the step graph itself. Source: docs/references.md#tensor-parallel-traffic
#include "sim/graph/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/layer.hpp"
#include "tests/support/models.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::llama3_70b;
using tracecast::test::small_scenario;

TEST_CASE("traffic: tensor parallelism moves 4 all-reduces per layer, not one message", "[oracle][graph]") {
  const Model model = llama3_70b();
  const Parallel parallel{.tp = 8};
  Training training{.seq_length = 4096};
  training.micro_batch_size = training.global_batch_size = 8;
  const Plan plan = make_plan(model, parallel, training, 8).value();
  const LayerWork layer(model, plan);
  double wire = 0;
  for (const WorkList& list : {layer.forward(0), layer.backward(0, BackwardPart::all, false)})
    for (const Work& work : list) {
      if (work.kind != Work::Kind::collective && work.kind != Work::Kind::start) continue;
      CHECK(work.call.size.count == 536'870'912);  // what the AWS P5 guide calls the volume per layer
      wire += 2.0 * 7 / 8 * static_cast<double>(work.call.size.count);
    }
  CHECK(80 * wire == Approx(300.6e9).epsilon(1e-3));
}

TEST_CASE("traffic: one activation per boundary and micro-batch in each direction", "[oracle][graph]") {
  Scenario scenario = small_scenario(1, 4, 1);
  scenario.model.hidden_size = 8192;
  scenario.model.num_attention_heads = 64;
  scenario.model.head_dim = 128;
  scenario.training.seq_length = 4096;
  scenario.training.global_batch_size = 8;
  const ForecastRun run = forecast(scenario).value();
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  for (const ProgramItem& item : run.graph.programs[1]) {
    const Template& used = run.graph.templates[static_cast<std::size_t>(item.template_index)];
    for (const Op& op : used.ops) {
      if (op.type != OpType::send) continue;
      const Message& message = run.graph.messages[static_cast<std::size_t>(op.payload)];
      CHECK(message.size.count == 67'108'864);
      (used.phase == Phase::forward ? forward : backward) += message.size.count;
    }
  }
  CHECK(forward == 536'870'912);
  CHECK(backward == forward);
}

TEST_CASE("traffic: FSDP gathers twice with resharding and once without", "[oracle][graph]") {
  const auto gathered = [](bool reshard) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.training.global_batch_size = 8;
    scenario.parallel.zero_stage = 3;
    scenario.parallel.reshard_after_forward = reshard;
    scenario.parallel.reshard_root = reshard;
    const ForecastRun run = forecast(scenario).value();
    std::int64_t sum = 0;
    for (const ProgramItem& item : run.graph.programs[0])
      for (const Op& op : run.graph.templates[static_cast<std::size_t>(item.template_index)].ops)
        if (op.type == OpType::collective &&
            run.graph.collectives[static_cast<std::size_t>(op.payload)].traffic == Traffic::parameters)
          sum += run.graph.collectives[static_cast<std::size_t>(op.payload)].call.size.count;
    return sum;
  };
  const std::int64_t weights = 2 * parameter_count(small_scenario(1, 1, 8).model).total();
  CHECK(gathered(false) == weights);
  CHECK(gathered(true) == 2 * weights);
  // The AWS P5 guide's 70B over 8 GPUs: 140 GB x 7/8 = 122.5 GB per gather; two gathers and a reduce-scatter are 367.5
  // GB, not 245.
  CHECK(3 * 140e9 * 7 / 8 == 367.5e9);
}

TEST_CASE("traffic: a ring leaves a node once for the ranks of the fullest one", "[oracle][graph]") {
  const ForecastRun run = forecast(small_scenario(1, 1, 12)).value();  // 8 of the 12 ranks are in one node
  double far = 0;
  for (const TrafficCount& each : count_traffic(run.graph, 0)) {
    if (each.nodes > 1) CHECK(each.sent_far == Approx(each.sent / 8));
    far += each.sent_far;
  }
  CHECK(far > 0);
  const auto network = std::ranges::find(run.forecast.bandwidth, "network", &AxisBandwidth::link);
  REQUIRE(network != run.forecast.bandwidth.end());
  CHECK(network->sent_bytes == Approx(far));
}

TEST_CASE("traffic: a rank with both ends of the model has one table of words", "[oracle][graph]") {
  const auto sent = [](const char* schedule, int vpp, bool tied, Traffic traffic) {
    Scenario scenario = small_scenario(1, 2, 2);
    scenario.parallel.pp_schedule = schedule;
    scenario.parallel.vpp = vpp;
    scenario.model.tied_embeddings = tied;
    const ForecastRun run = forecast(scenario).value();
    std::int64_t bytes = 0;
    for (const TrafficCount& each : count_traffic(run.graph, 0))
      if (each.traffic == traffic && each.nodes == 1 && each.ranks == 2) bytes += each.size.count;
    return bytes;
  };
  const std::int64_t table = 4LL * 1024 * 1024;  // fp32 gradients of a vocabulary and a width of 1,024
  for (const char* name : {"zb-v", "v-half", "v-min", "dualpipev", "hanayo"}) {
    INFO(name);
    CHECK(sent(name, 2, true, Traffic::embedding) == 0);
    CHECK(sent(name, 2, false, Traffic::gradients) - sent(name, 2, true, Traffic::gradients) == table);
  }
  // Two copies of the model: each end holds both, and gradients are summed over the copies and over the replicas.
  for (const char* name : {"dualpipe", "chimera"}) {
    INFO(name);
    CHECK(sent(name, 1, true, Traffic::embedding) == 0);
    CHECK(sent(name, 1, false, Traffic::gradients) - sent(name, 1, true, Traffic::gradients) == 2 * table);
  }
  CHECK(sent("1f1b", 1, true, Traffic::embedding) == table);
  CHECK(sent("1f1b", 1, false, Traffic::gradients) == sent("1f1b", 1, true, Traffic::gradients));
}

TEST_CASE("traffic: Megatron-LM's buckets are those of the first stage of a pipeline", "[oracle][graph]") {
  const auto calls = [](int vpp, std::size_t rank, Traffic traffic, int zero_stage = 1) {
    Scenario scenario = small_scenario(1, 2, 2);
    scenario.parallel.vpp = vpp;
    scenario.parallel.zero_stage = zero_stage;
    scenario.parallel.ddp_bucket_size = 10'000'000;  // a layer has 15 million parameters
    const ForecastRun run = forecast(scenario).value();
    std::int64_t sum = 0;
    for (const TrafficCount& each : count_traffic(run.graph, rank))
      if (each.traffic == traffic && each.ranks == 2) sum += each.calls;
    return sum;
  };
  CHECK(calls(1, 1, Traffic::gradients, 2) > 1);  // FSDP has units on every stage
  for (const Traffic traffic : {Traffic::gradients, Traffic::parameters}) {
    CHECK(calls(1, 0, traffic) == 4 + (traffic == Traffic::gradients ? 1 : 0));  // four layers; last the embedding
    CHECK(calls(1, 1, traffic) == 1);
    CHECK(calls(2, 0, traffic) == 2 + (traffic == Traffic::gradients ? 1 : 0) + 1);  // and the second chunk
    CHECK(calls(2, 1, traffic) == 2);
  }
}

TEST_CASE("traffic: parameters in fp8 are gathered in 8 bits, those in MXFP8 in 16", "[oracle][graph][precision]") {
  const auto gathered = [](Precision precision) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.parallel.zero_stage = 1;
    scenario.training.dtype = precision;
    scenario.training.fp8_param_gather = precision != Precision::bf16;
    const ForecastRun run = forecast(scenario).value();
    std::int64_t bytes = 0;
    for (const TrafficCount& each : count_traffic(run.graph, 0))
      if (each.traffic == Traffic::parameters) bytes += each.size.count;
    return bytes;
  };
  CHECK(gathered(Precision::mxfp8) == gathered(Precision::bf16));
  CHECK(gathered(Precision::fp8) < gathered(Precision::bf16));
}

TEST_CASE("traffic: tiled tensor parallelism sends what whole collectives send", "[oracle][graph]") {
  const auto run_of = [](bool overlap, double nvlink, const Training& tuned = {}) {
    Scenario scenario = small_scenario(8, 1, 1);
    scenario.training.dtype = tuned.dtype;
    scenario.training.lora_rank = tuned.lora_rank;
    scenario.training.lora_targets = tuned.lora_targets;
    scenario.model.hidden_size = 8192;
    scenario.model.num_attention_heads = 64;
    scenario.model.head_dim = 128;
    scenario.model.ffn_hidden_size = 28672;
    scenario.training.seq_length = 4096;
    scenario.parallel.tp_comm_overlap = overlap;
    scenario.cluster.node.gpu_link.bytes_per_second =
        std::llround(nvlink * static_cast<double>(scenario.cluster.node.gpu_link.bytes_per_second));
    return forecast(scenario).value();
  };
  const auto sent = [](const ForecastRun& run) {
    std::int64_t bytes = 0;
    for (const TrafficCount& each : count_traffic(run.graph, 0))
      if (each.traffic == Traffic::tensor_parallel) bytes += each.size.count;
    return bytes;
  };
  const auto exposed = [](const ForecastRun& run) {
    std::int64_t bytes = 0;
    for (const CostedCollective& each : run.graph.collectives)
      if (each.traffic == Traffic::tensor_parallel && each.tiled.count > 0) bytes += each.call.size.count;
    return bytes;
  };
  CHECK(sent(run_of(true, 1)) == sent(run_of(false, 1)));
  CHECK(exposed(run_of(false, 1)) == 0);
  CHECK(exposed(run_of(true, 1)) > 0);
  // Over slow links no more is hidden than a multiplication has time for.
  const ForecastRun slow = run_of(true, 1.0 / 64);
  CHECK(sent(slow) == sent(run_of(false, 1)));
  CHECK(exposed(slow) > 2 * exposed(run_of(true, 1)));
  // With adapters, too, a matrix's own multiplication hides its transfers.
  const ForecastRun adapted = run_of(true, 1, {.lora_rank = 16});
  std::set<Collective> tiled;
  for (const CostedCollective& each : adapted.graph.collectives)
    if (each.tiled.count > 0) tiled.insert(each.call.collective);
  CHECK(tiled == std::set{Collective::all_gather, Collective::reduce_scatter});
  // The graph has no collective that no rank runs: frozen matrices never gather their 8-bit inputs whole.
  const ForecastRun frozen = run_of(true, 1, {.dtype = Precision::fp8, .lora_rank = 16, .lora_targets = {"fc2"}});
  std::set<std::int32_t> called;
  for (const Template& each : frozen.graph.templates)
    for (const Op& op : each.ops)
      if (op.type == OpType::collective) called.insert(op.payload);
  CHECK(called.size() == frozen.graph.collectives.size());
}

TEST_CASE("traffic: ZeRO-1 sums gradients where their states are, or everywhere", "[oracle][graph]") {
  const auto reductions = [](auto change) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.training.global_batch_size = 8;
    scenario.parallel.zero_stage = 1;
    change(scenario);
    const ForecastRun run = forecast(scenario).value();
    std::set<Collective> kinds;
    for (const CostedCollective& each : run.graph.collectives)
      if (each.traffic == Traffic::gradients) kinds.insert(each.call.collective);
    return kinds;
  };
  const std::set scatter{Collective::reduce_scatter}, everywhere{Collective::all_reduce};
  CHECK(reductions([](Scenario&) {}) == scatter);
  CHECK(reductions([](Scenario& s) { s.parallel.zero1_allreduce = true; }) == everywhere);
  CHECK(reductions([](Scenario& s) { s.training.keep_16bit_gradients = true; }) == everywhere);  // BF16_Optimizer
  CHECK(reductions([](Scenario& s) {
          s.parallel.zero1_allreduce = true;
          s.parallel.zero_stage = 2;
        }) == scatter);
  for (const int stage : {1, 2, 3})
    CHECK(reductions([stage](Scenario& s) {
            s.parallel.data_parallel = DataParallelKind::deepspeed;
            s.parallel.zero_stage = stage;
          }) == (stage < 3 ? everywhere : scatter));
}

TEST_CASE("traffic: DeepSpeed's bf16 optimizer sums in fp32 and reduces 16 bits", "[oracle][graph]") {
  const auto reduced = [](bool apart) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.training.global_batch_size = 8;
    scenario.training.keep_16bit_gradients = apart;
    scenario.training.grad_reduce_dtype = Precision::fp32;
    const ForecastRun run = forecast(scenario).value();
    std::int64_t bytes = 0;
    for (const CostedCollective& each : run.graph.collectives)
      if (each.traffic == Traffic::gradients) bytes += each.call.size.count;
    return bytes;
  };
  CHECK(reduced(false) > 0);
  CHECK(2 * reduced(true) == reduced(false));
}

TEST_CASE("traffic: expert dispatch and combine", "[oracle][graph]") {
  Model model = llama3_70b();
  model.hidden_size = 7168;
  model.num_attention_heads = 56;
  model.moe = MixtureOfExperts{};
  model.moe->experts = 256;
  model.moe->topk = 8;
  model.moe->ffn_hidden = 2048;
  const Parallel parallel{.ep = 64};
  const Training training{.seq_length = 8192, .global_batch_size = 64};
  const Plan plan = make_plan(model, parallel, training, 64).value();
  int exchanges = 0;
  for (const Work& work : LayerWork(model, plan).forward(0)) {
    if (work.traffic != Traffic::expert_parallel || work.kind != Work::Kind::start) continue;
    ++exchanges;
    CHECK(static_cast<double>(work.call.size.count) * 63 / 64 == Approx(924.8e6).epsilon(1e-3));
  }
  CHECK(exchanges == 2);
}

TEST_CASE("traffic: global batch = local batch x data-parallel ranks x micro-batches", "[oracle][graph]") {
  // 128 samples are 4 steps of batch 32 or 2 of batch 64; on 4 ranks of local batch 8 one step of 32 is one micro-batch.
  Scenario scenario = small_scenario(1, 1, 4);
  scenario.training.micro_batch_size = 8;
  scenario.training.global_batch_size = 32;
  CHECK(forecast(scenario).value().plan.num_microbatches == 1);
  scenario.training.global_batch_size = 64;
  CHECK(forecast(scenario).value().plan.num_microbatches == 2);
}
