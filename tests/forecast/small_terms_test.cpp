// Terms of a forecast that are small on most machines: each is made large here, and compared with its value by hand.
#include <catch2/catch.hpp>

#include "sim/forecast/axis_bandwidth.hpp"
#include "sim/forecast/engine_step_times.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "sim/network/host_collectives.hpp"
#include "sim/network/parameter_server.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

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

TEST_CASE("tied embeddings of two stages are added up once a step", "[oracle][graph]") {
  Scenario scenario = small_scenario(1, 2, 1);
  CHECK(sizes_of(forecast(scenario).value(), Traffic::embedding, Phase::optimizer).empty());
  scenario.model.tied_embeddings = true;
  const ForecastRun run = forecast(scenario).value();
  // Gradients of V x h in fp32.
  CHECK(sizes_of(run, Traffic::embedding, Phase::optimizer) == std::vector<std::int64_t>{1024 * 1024 * 4});
}

TEST_CASE("with sequence parallelism the gradients of norms are summed", "[oracle][graph]") {
  Scenario scenario = small_scenario(2, 1, 1);
  const auto norms = [&] {
    const std::vector<std::int64_t> sizes =
        sizes_of(forecast(scenario).value(), Traffic::tensor_parallel, Phase::optimizer);
    REQUIRE(sizes.size() == 1);
    return sizes.front();
  };
  // Two norms of h weights in 8 layers, fp32; layer norms have a bias as well.
  CHECK(norms() == 8 * 2 * 1024 * 4);
  scenario.model.norm_bias = true;
  CHECK(norms() == 8 * 4 * 1024 * 4);
}

TEST_CASE("an all-to-all sends what is for other nodes over the network", "[oracle][bandwidth]") {
  Scenario scenario = shipped_scenario("deepseek-v3-2048");
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
