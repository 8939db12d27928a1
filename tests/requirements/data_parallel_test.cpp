// Data parallelism in its kinds: DDP, DeepSpeed, parameter servers, other backends, other optimizers, offloading.
// Sources: docs/references.md#fsdp-variants, docs/references.md#data-parallel-traffic,
// docs/references.md#parameter-server
#include <numeric>

#include <catch2/catch.hpp>

#include "sim/cost/host_update.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/network/parameter_server.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"
#include "tests/support/traffic.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using namespace tracecast::test;

namespace {

Scenario eight_ranks(DataParallelKind kind) {
  Scenario scenario = small_scenario(1, 1, 8);
  scenario.training.global_batch_size = 8;
  scenario.parallel.data_parallel = kind;
  return scenario;
}

TrafficCount total(const Scenario& scenario, Traffic traffic, Collective collective) {
  return total_of(count_traffic(run(scenario).graph, 0), traffic, collective);
}

}  // namespace

TEST_CASE("parameter servers in the step graph: every worker pushes gradients and pulls weights",
          "[row-2-3][row-4-7][requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::parameter_server);
  const std::int64_t n = parameter_count(scenario.model).total();
  const TrafficCount pushed = total(scenario, Traffic::gradients, Collective::send_recv);
  const TrafficCount pulled = total(scenario, Traffic::parameters, Collective::send_recv);
  CHECK(pushed.size == Bytes{4 * n});
  CHECK(pulled.size == Bytes{2 * n});
  CHECK(total(scenario, Traffic::gradients, Collective::all_reduce).calls == 0);
  CHECK(run(scenario).forecast.memory[0].optimizer == Bytes{0});  // the servers have the states
  // Between nodes a server's NICs carry all workers: with one GPU and one NIC per node the gradients take
  // W S / b, and they are exposed when nothing hides them.
  scenario.cluster = eight_workers();
  scenario.parallel.overlap_grad_reduce = false;
  const ForecastRun slow = run(scenario);
  CHECK(exposed(slow, Traffic::gradients) == Approx(8 * 4.0 * static_cast<double>(n) / 12.5e9).epsilon(0.01));
  const double update = seconds(host_update(n, 1));
  CHECK(exposed(slow, Traffic::parameters) == Approx(8 * 2.0 * static_cast<double>(n) / 12.5e9 + update).epsilon(0.01));
  scenario.parallel.servers = 4;
  CHECK(exposed(run(scenario), Traffic::gradients) == Approx(exposed(slow, Traffic::gradients) / 4).epsilon(0.01));
  // Folded and unfolded agree.
  CHECK(forecast(scenario, {.unfold = true}).value().timeline.step_time == run(scenario).timeline.step_time);
}

TEST_CASE("asynchronous workers wait only for a busy server", "[row-4-8][requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::async_parameter_server);
  scenario.cluster = eight_workers();
  scenario.parallel.overlap_grad_reduce = false;
  scenario.parallel.servers = 64;  // plenty: each worker's own link is the limit
  const std::int64_t n = parameter_count(scenario.model).total();
  const ForecastRun fast = run(scenario);
  const double compute =
      fast.forecast.step_time_s - exposed(fast, Traffic::gradients) - exposed(fast, Traffic::parameters);
  const double cycle = compute + (4.0 + 2.0) * static_cast<double>(n) / 12.5e9 + seconds(host_update(n / 64, 1));
  CHECK(fast.forecast.step_time_s == Approx(cycle).epsilon(0.01));
  // One server: eight workers' gradients take longer than the rest of the step together.
  scenario.parallel.servers = 1;
  scenario.cluster.node.nic_rate = Bandwidth{1'250'000'000};
  const double service = 8 * 4.0 * static_cast<double>(n) / 1.25e9;
  CHECK(run(scenario).forecast.step_time_s > service);
  scenario.parallel.data_parallel = DataParallelKind::parameter_server;
  CHECK(run(scenario).forecast.step_time_s > 1.3 * service);  // push and pull one after the other
}

TEST_CASE("the slowest worker holds back a synchronous step, asynchronous throughput drops less",
          "[row-4-8][requirements][graph]") {
  // Updates a second of all workers, one of which computes ten times as long.
  const auto throughput = [](DataParallelKind kind, double slowness) {
    Scenario scenario = eight_ranks(kind);
    scenario.cluster = eight_workers();
    scenario.cluster.node.nic_rate = Bandwidth{12'500'000'000'000};  // so that computing decides
    scenario.parallel.servers = 1024;
    if (slowness > 1) scenario.perturbation.slow_ranks = {{{5, 5}, slowness}};
    const ForecastRun result = run(scenario);
    double sum = 0;
    for (std::size_t rank = 0; rank < result.graph.ranks.size(); ++rank) {
      const Duration own =
          kind == DataParallelKind::parameter_server ? result.timeline.step_time : result.timeline.ends[rank];
      sum += result.graph.ranks[rank].multiplicity / seconds(own);
    }
    return sum;
  };
  const double synchronous =
      throughput(DataParallelKind::parameter_server, 10) / throughput(DataParallelKind::parameter_server, 1);
  const double asynchronous = throughput(DataParallelKind::async_parameter_server, 10) /
                              throughput(DataParallelKind::async_parameter_server, 1);
  CHECK(synchronous < 0.5);
  // Seven of eight go on as they did.
  CHECK(asynchronous > 7.0 / 8);
  CHECK(asynchronous < 1);
}

TEST_CASE("DDP's buckets hold 25 MiB of gradients, the first 1 MiB", "[row-4-11][requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::ddp);
  std::vector<std::int64_t> sizes;
  const ForecastRun result = run(scenario);
  for (const ProgramItem& item : result.graph.programs[0])
    for (const Op& op : result.graph.templates[static_cast<std::size_t>(item.template_index)].ops)
      if (op.type == OpType::collective) {
        const CostedCollective& call = result.graph.collectives[static_cast<std::size_t>(op.payload)];
        if (call.traffic == Traffic::gradients) sizes.push_back(call.call.size.count);
      }
  const std::int64_t n = parameter_count(scenario.model).total();
  CHECK(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == 4 * n);
  REQUIRE(sizes.size() > 2);
  // Whole tensors: a bucket closes with the one that fills it, of 4096 x 1024 x 2 elements at most.
  const std::int64_t largest = 4LL * 2 * 4096 * 1024;
  CHECK(sizes.front() >= 1 << 20);
  CHECK(sizes.front() < (1 << 20) + largest);
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i) {
    CHECK(sizes[i] >= 25 << 20);
    CHECK(sizes[i] < (25 << 20) + largest);
  }
  const std::int64_t default_calls = static_cast<std::int64_t>(sizes.size());
  scenario.parallel.bucket_cap_mb = 100;
  CHECK(total(scenario, Traffic::gradients, Collective::all_reduce).calls < default_calls);
}

TEST_CASE("DeepSpeed's bucket sizes decide how many calls there are, not how many bytes",
          "[row-0-7][requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::deepspeed);
  const std::int64_t n = parameter_count(scenario.model).total();
  for (const int stage : {1, 2, 3}) {
    scenario.parallel.zero_stage = stage;
    scenario.parallel.reduce_bucket_size = 0;  // 5e8 elements: everything at once
    const Collective reduction = stage < 3 ? Collective::all_reduce : Collective::reduce_scatter;
    CHECK(total(scenario, Traffic::gradients, reduction).calls == 1);
    scenario.parallel.reduce_bucket_size = 10'000'000;
    const TrafficCount buckets = total(scenario, Traffic::gradients, reduction);
    CHECK(buckets.calls > 4);
    CHECK(buckets.calls <= n / 10'000'000 + 1);
    CHECK(buckets.size == Bytes{4 * n});
  }
  scenario.parallel.zero_stage = 1;
  CHECK(total(scenario, Traffic::parameters, Collective::all_gather).calls == 1);
  scenario.parallel.allgather_bucket_size = 10'000'000;
  CHECK(total(scenario, Traffic::parameters, Collective::all_gather).calls > 4);
  CHECK(total(scenario, Traffic::parameters, Collective::all_gather).size == Bytes{2 * n});
}

TEST_CASE("FSDP that waits for the last micro-batch reduces once, and keeps whole gradients", "[requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::automatic);
  scenario.parallel.zero_stage = 3;
  scenario.parallel.reshard_root = true;
  scenario.training.global_batch_size *= 4;
  const std::int64_t n = parameter_count(scenario.model).total();
  const auto reduced = [&] { return total(scenario, Traffic::gradients, Collective::reduce_scatter).size; };
  const auto gathered = [&] { return total(scenario, Traffic::parameters, Collective::all_gather).size; };
  const auto kept = [&] { return run(scenario).forecast.memory[0].gradients; };
  CHECK(reduced() == Bytes{4 * 4 * n});
  CHECK(kept() == Bytes{4 * n / 8});
  scenario.parallel.defer_grad_sync = true;
  CHECK(reduced() == Bytes{4 * n});
  CHECK(kept() == Bytes{4 * n});
  // In each of four micro-batches twice, once, and in the first only.
  CHECK(gathered() == Bytes{4 * 2 * 2 * n});
  scenario.parallel.reshard_after_backward = false;
  CHECK(gathered() == Bytes{(1 + 4) * 2 * n});  // each backward gathers what the forward freed
  scenario.parallel.pp_schedule = "gpipe";      // all of them behind all forwards
  CHECK(gathered() == Bytes{(1 + 4) * 2 * n});
  scenario.parallel.reshard_group = 2;  // a stream of their own
  scenario.parallel.reshard_after_backward = true;
  CHECK(gathered() == Bytes{4 * 2 * 2 * n});
  scenario.parallel.reshard_group = 0;
  scenario.parallel.reshard_after_backward = false;
  scenario.parallel.pp_schedule = "";
  scenario.parallel.reshard_after_forward = false;
  CHECK(gathered() == Bytes{2 * n});
  scenario.parallel.reshard_after_backward = true;
  CHECK(gathered() == Bytes{4 * 2 * n});
  scenario.parallel.data_parallel = DataParallelKind::fsdp1;  // frees nothing in a backward that does not reduce
  CHECK(gathered() == Bytes{2 * n});
  scenario.parallel.data_parallel = DataParallelKind::deepspeed;  // has no such modes
  scenario.parallel.param_persistence_threshold = 1;
  CHECK(reduced() == Bytes{4 * 4 * n});
  CHECK(gathered() == Bytes{4 * 2 * n});
}

TEST_CASE("FSDP that waits for the last of one micro-batch waits for nothing", "[requirements][graph][memory]") {
  Scenario scenario = eight_ranks(DataParallelKind::fsdp1);
  scenario.parallel.zero_stage = 3;
  const ForecastRun every = run(scenario);
  scenario.parallel.defer_grad_sync = true;
  const ForecastRun last = run(scenario);
  REQUIRE(last.plan.num_microbatches == 1);
  CHECK(last.forecast.memory[0] == every.forecast.memory[0]);
  CHECK(last.timeline.step_time == every.timeline.step_time);
}

TEST_CASE("Megatron-LM's buckets grow with all ranks that hold the same parameters", "[requirements][graph]") {
  // 160 million parameters; 64 ranks: buckets of 64 million elements, whatever part of the ranks divides sequences.
  const auto calls = [](int dp, int cp) {
    Scenario scenario = small_scenario(1, 1, dp * cp);
    scenario.parallel.dp = dp;
    scenario.parallel.cp = cp;
    scenario.training.seq_length = 1024 * cp;
    scenario.training.global_batch_size = 64;
    return total(scenario, Traffic::gradients, Collective::all_reduce).calls;
  };
  CHECK(calls(8, 1) > calls(64, 1));
  CHECK(calls(8, 8) == calls(64, 1));
}

TEST_CASE("FSDP's root is one unit where trainers wrap layers alone", "[requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::fsdp1);
  scenario.parallel.zero_stage = 3;
  scenario.parallel.overlap_param_gather = true;
  const int layers = scenario.model.layers();
  const std::int64_t n = parameter_count(scenario.model).total();
  const auto count = [&](Traffic traffic, Collective what) { return total(scenario, traffic, what); };
  // Layers in the forward and in the backward, the root once; every gradient once.
  CHECK(count(Traffic::parameters, Collective::all_gather).calls == 2 * layers + 1);
  CHECK(count(Traffic::gradients, Collective::reduce_scatter).calls == layers + 1);
  CHECK(count(Traffic::gradients, Collective::reduce_scatter).size == Bytes{4 * n});
  const Bytes kept = run(scenario).forecast.memory[0].transient;
  scenario.parallel.reshard_root = true;
  CHECK(count(Traffic::parameters, Collective::all_gather).calls == 2 * layers + 2);
  CHECK(count(Traffic::parameters, Collective::all_gather).size == Bytes{2 * 2 * n});
  CHECK(run(scenario).forecast.memory[0].transient == kept);  // it is whole in both passes
  scenario.parallel.data_parallel = DataParallelKind::automatic;
  scenario.parallel.reshard_root = false;  // torchtitan's: embedding and output layer
  CHECK(count(Traffic::parameters, Collective::all_gather).calls == 2 * layers + 2);
  CHECK(count(Traffic::gradients, Collective::reduce_scatter).calls == layers + 2);
  scenario.parallel.joint_root = true;  // AutoModel's
  CHECK(count(Traffic::parameters, Collective::all_gather).calls == 2 * layers + 1);
  CHECK(count(Traffic::gradients, Collective::reduce_scatter).calls == layers + 1);
}

TEST_CASE("FSDP has one collective for a unit whose experts are on every rank", "[requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::automatic);
  scenario.model.moe = MixtureOfExperts{.experts = 8, .topk = 2, .ffn_hidden = 512};
  scenario.parallel.zero_stage = 3;
  const int units = scenario.model.layers() + 2;
  const TrafficCount one = total(scenario, Traffic::gradients, Collective::reduce_scatter);
  CHECK(one.calls == units);
  scenario.parallel.ep = 2;  // over other ranks
  const TrafficCount apart = total(scenario, Traffic::gradients, Collective::reduce_scatter);
  CHECK(apart.calls == units + scenario.model.layers());
}

TEST_CASE("DeepSpeed's reductions block the backward without overlap_comm", "[requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::deepspeed);
  scenario.training.global_batch_size *= 2;
  scenario.parallel.reduce_bucket_size = 10'000'000;
  const auto exposed_gradients = [&scenario](int stage, bool overlap) {
    scenario.parallel.zero_stage = stage;
    scenario.parallel.overlap_grad_reduce = overlap;
    const Forecast forecast = run(scenario).forecast;
    return exposed(forecast, Traffic::gradients);
  };
  // Stage 1 reduces once for both micro-batches, its buckets together, stage 2 in each, one bucket at a time.
  CHECK(exposed_gradients(2, false) >= 2 * exposed_gradients(1, false));
  for (const int stage : {2, 3}) CHECK(exposed_gradients(stage, true) < exposed_gradients(stage, false) / 2);
}

TEST_CASE("DeepSpeed leaves small tensors whole and gathers ahead by elements", "[row-0-8][requirements][graph]") {
  Scenario scenario = eight_ranks(DataParallelKind::deepspeed);
  scenario.parallel.zero_stage = 3;
  scenario.parallel.reshard_root = true;
  const std::int64_t n = parameter_count(scenario.model).total();
  const std::int64_t norms = (2 * 8 + 1) * 1024;
  CHECK(total(scenario, Traffic::parameters, Collective::all_gather).size == Bytes{2 * 2 * (n - norms)});
  scenario.parallel.param_persistence_threshold = 1;  // nothing is that small
  CHECK(total(scenario, Traffic::parameters, Collective::all_gather).size == Bytes{2 * 2 * n});
  // How many gathers are issued before the first computation: the unit itself and what the prefetch bucket holds.
  const auto ahead = [&scenario] {
    const ForecastRun result = run(scenario);
    const Template& forward =
        result.graph.templates[static_cast<std::size_t>(result.graph.programs[0][1].template_index)];
    int count = 0;
    for (const Op& op : forward.ops) {
      if (op.type == OpType::compute && op.payload >= 0) return count;
      if (op.type == OpType::collective) ++count;
    }
    return count;
  };
  scenario.parallel.prefetch_bucket_size = 1;  // the next one in any case
  CHECK(ahead() == 2);
  scenario.parallel.prefetch_bucket_size = 1'000'000'000;
  CHECK(ahead() == 10);
  // The bucket counts what is gathered ahead, not the embedding that is computed next: exactly three layers fit.
  Model shorter = scenario.model;
  --shorter.num_layers;
  scenario.parallel.prefetch_bucket_size = 3 * (n - parameter_count(shorter).total());
  CHECK(ahead() == 1 + 3);
  --scenario.parallel.prefetch_bucket_size;
  CHECK(ahead() == 1 + 2);
}

TEST_CASE("gloo and MPI run rings over the hosts, without NVLink", "[row-4-12][requirements][network]") {
  Scenario scenario = small_scenario(1, 1, 8);
  const double nccl = run(scenario).forecast.step_time_s;
  scenario.cluster.backend = Backend::mpi;
  const double mpi = run(scenario).forecast.step_time_s;
  scenario.cluster.backend = Backend::gloo;
  const double gloo = run(scenario).forecast.step_time_s;
  CHECK(nccl < mpi);
  CHECK(mpi < gloo);
  // 2 (n-1)/n S / 1.1 GB/s, copies over PCIe both ways and 14 rounds of 30 us.
  std::vector<int> all(8);
  std::iota(all.begin(), all.end(), 0);
  const GroupPlacement group = place(scenario.cluster, all, 1);
  const CollectiveCost cost =
      make_analytic_network(scenario.cluster, "Hopper")->cost({Collective::all_reduce, Bytes{1'100'000'000}}, group);
  const double copies = 2 * 1.1e9 / static_cast<double>(scenario.cluster.node.pcie.bytes_per_second);
  CHECK(seconds(cost.duration) == Approx(1.75 + copies + 14 * 30e-6));
}

TEST_CASE("LARS and LAMB add norms of every layer, and reductions of them where a layer is divided",
          "[row-1-23][requirements][graph][memory]") {
  Scenario scenario = small_scenario(2, 1, 4);
  scenario.parallel.zero_stage = 1;
  const auto control = [](const Scenario& each) { return total(each, Traffic::control, Collective::all_reduce).calls; };
  CHECK(control(scenario) == 1);
  const ForecastRun adam = run(scenario);
  scenario.training.optimizer = OptimizerKind::lamb;
  CHECK(control(scenario) == 1 + 2 * 10);  // embedding, 8 layers, head; over tp and over the shards
  const ForecastRun lamb = run(scenario);
  CHECK(lamb.forecast.memory == adam.forecast.memory);  // two states per parameter, both
  CHECK(lamb.forecast.optimizer_s > adam.forecast.optimizer_s);
  scenario.training.optimizer = OptimizerKind::lars;
  CHECK(run(scenario).forecast.memory[0].optimizer < lamb.forecast.memory[0].optimizer);
  scenario.training.optimizer = OptimizerKind::momentum;
  CHECK(control(scenario) == 1);
}

TEST_CASE("offload: optimizer states on the host; gradients and weights cross PCIe",
          "[requirements][graph][memory][oracle]") {
  Scenario scenario = small_scenario(1, 1, 8);
  scenario.training.global_batch_size = 8;
  scenario.parallel.zero_stage = 1;
  const ForecastRun plain = run(scenario);
  scenario.training.offload_optimizer = true;
  const ForecastRun moved = run(scenario);
  CHECK(moved.forecast.memory[0].optimizer == Bytes{0});
  CHECK(moved.forecast.memory[0].host == plain.forecast.memory[0].optimizer);
  CHECK(moved.forecast.memory[0].total() < plain.forecast.memory[0].total());
  CHECK(moved.forecast.step_time_s > plain.forecast.step_time_s);
  // 4 bytes of gradients down and 2 bytes of weights up for each parameter of the shard.
  const std::int64_t own = (parameter_count(scenario.model).total() + 7) / 8;
  Bytes down;
  Bytes up;
  for (const ProgramItem& item : moved.graph.programs[0])
    for (const Op& op : moved.graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::collective) continue;
      const CostedCollective& call = moved.graph.collectives[static_cast<std::size_t>(op.payload)];
      if (call.traffic != Traffic::offload) continue;
      (op.stream == static_cast<StreamId>(Lane::to_host) ? down : up) += call.call.size;
    }
  CHECK(up == Bytes{2 * own});
  CHECK(static_cast<double>(down.count) == Approx(4.0 * static_cast<double>(own)).epsilon(1e-4));  // buckets round up
  // The host's update, 3.9e9 parameters a second for all eight ranks, and the way back are not hidden.
  const double pcie = static_cast<double>(scenario.cluster.node.pcie.bytes_per_second);
  const double shown = seconds(host_update(own, 8)) + 2.0 * static_cast<double>(own) / pcie;
  CHECK(exposed(moved, Traffic::offload) > shown * 0.99);
  CHECK(seconds(host_update(3'900'000'000, 1)) == Approx(1));
  // One GPU alone: ZeRO-Offload's first use.
  Scenario one = small_scenario(1, 1, 1);
  one.training.offload_optimizer = true;
  CHECK(exposed(run(one), Traffic::offload) > 0);
}

TEST_CASE("kinds of data parallelism: incompatible settings are reported", "[requirements][plan][error]") {
  const auto message = [](const Parallel& parallel, const Training& training) {
    return error_text(make_plan(small_scenario(1, 1, 8).model, parallel, training, 8));
  };
  Training training = small_scenario(1, 1, 8).training;
  Parallel parallel{.reduce_bucket_size = 5};
  CHECK(message(parallel, training) == "parallel.reduce_bucket_size = 5: needs parallel.data_parallel = deepspeed");
  parallel = {};
  parallel.bucket_cap_mb = 25;
  CHECK(message(parallel, training) == "parallel.bucket_cap_mb = 25: needs parallel.data_parallel = ddp");
  parallel = {};
  parallel.data_parallel = DataParallelKind::ddp;
  parallel.ddp_bucket_size = 7;
  CHECK(message(parallel, training) ==
        "parallel.ddp_bucket_size = 7: needs parallel.data_parallel = automatic, fsdp1 or parameter servers");
  parallel.ddp_bucket_size = 0;
  parallel.zero_stage = 1;
  CHECK(message(parallel, training) ==
        "parallel.zero_stage = 1: divides what ddp and parameter servers keep whole (allowed: 0)");
  parallel = {};
  parallel.data_parallel = DataParallelKind::parameter_server;
  parallel.tp = 2;
  CHECK(message(parallel, training) ==
        "parallel.data_parallel: parameter servers need workers with the whole model (tp, pp, cp, ep 1)");
  parallel.tp = 1;
  const std::string once =
      "parallel.pp_schedule = pipedream: updates after every micro-batch, where parameter servers and "
      "parameter_averaging act once in a step";
  parallel.pp_schedule = "pipedream";
  CHECK(message(parallel, training) == once);
  CHECK(message({.pp_schedule = "pipedream", .data_parallel = DataParallelKind::parameter_averaging}, training) ==
        once);
  parallel.pp_schedule = "";
  training.offload_optimizer = true;
  CHECK(message(parallel, training) ==
        "training.offload_optimizer = true: has nothing to move: parameter servers hold the states");
}
