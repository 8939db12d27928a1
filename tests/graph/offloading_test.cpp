// Activations and parameters that wait on the host (docs/references.md#offloading).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/stage_times.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/memory.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::exposed;
using tracecast::test::run;
using tracecast::test::small_scenario;

namespace {

struct Copied {
  int calls = 0;
  Bytes size;
};

Copied copied(const ForecastRun& result, Lane lane) {
  Copied sum;
  for (const ProgramItem& item : result.graph.programs[0])
    for (const Op& op : result.graph.templates[static_cast<std::size_t>(item.template_index)].ops)
      if (op.type == OpType::collective && op.stream == static_cast<StreamId>(lane)) {
        ++sum.calls;
        sum.size += result.graph.collectives[static_cast<std::size_t>(op.payload)].call.size;
      }
  return sum;
}

}  // namespace

TEST_CASE("offloaded activations cross PCIe once out and once back, layer by layer", "[graph][memory][oracle]") {
  Scenario scenario = small_scenario(1, 1, 1);
  const ForecastRun plain = run(scenario);
  scenario.training.offload_activations = true;
  const ForecastRun moved = run(scenario);
  // 8 micro-batches of 8 layers.
  const Bytes layer = layer_activation_bytes(scenario.model, moved.plan, 0);
  CHECK(copied(moved, Lane::to_host).calls == 64);
  CHECK(copied(moved, Lane::to_host).size == 64 * layer);
  CHECK(copied(moved, Lane::from_host).calls == 64);
  CHECK(copied(moved, Lane::from_host).size == 64 * layer);
  // One micro-batch is in flight: its eight layers wait on the host, three at most are on the GPU.
  const MemoryByKind& before = plain.forecast.memory[0];
  const MemoryByKind& after = moved.forecast.memory[0];
  CHECK(after.host == 8 * layer);
  CHECK(before.activations - after.activations == 8 * layer);
  CHECK(after.transient - before.transient == 3 * layer);
  CHECK(after.total() < before.total());
  // The same work; folded and unfolded agree.
  std::map<std::string, double> kernels = moved.forecast.compute_s;
  kernels.erase("contention");  // the copies pass through the GPU's memory
  CHECK(kernels == plain.forecast.compute_s);
  CHECK(forecast(scenario, {.unfold = true}).value().timeline.step_time == moved.timeline.step_time);
}

TEST_CASE("offloaded activations of the first layers only", "[graph][memory][oracle]") {
  Scenario scenario = small_scenario(1, 1, 1);
  const ForecastRun plain = run(scenario);
  scenario.training.offload_activations = true;
  const Bytes layer = layer_activation_bytes(scenario.model, plain.plan, 0);
  for (const int layers : {1, 2, 3, 6, 7, 8, 9}) {  // of 8
    CAPTURE(layers);
    scenario.training.offload_layers = layers;
    const ForecastRun moved = run(scenario);
    const int offloaded = std::min(layers, 8);
    CHECK(copied(moved, Lane::to_host).calls == 8 * offloaded);
    CHECK(copied(moved, Lane::from_host).calls == 8 * offloaded);
    CHECK(copied(moved, Lane::from_host).size == 8 * offloaded * layer);
    const MemoryByKind& before = plain.forecast.memory[0];
    const MemoryByKind& after = moved.forecast.memory[0];
    CHECK(after.host == offloaded * layer);
    CHECK(before.activations - after.activations == offloaded * layer);
    // All: three cross at a time. Some: one besides those that stay, but not while the loss runs.
    const double kept = rank_bytes(head_activations(scenario.model, moved.plan), moved.plan);
    const double loss = rank_bytes(loss_workspace(scenario.model, moved.plan), moved.plan);
    const Bytes crossing{std::max<std::int64_t>(0, layer.count - std::llround(kept + loss))};
    CHECK(after.transient - before.transient == (offloaded == 8 ? 3 * layer : crossing));
    CHECK(forecast(scenario, {.unfold = true}).value().timeline.step_time == moved.timeline.step_time);
  }
  scenario.training.offload_activations = false;
  CHECK(to_string(forecast(scenario).error()).find("training.offload_layers = 9: needs") != std::string::npos);
}

TEST_CASE("a stage that offloads some layers has one more of them on the GPU than those that stay",
          "[memory][oracle]") {
  Scenario scenario = small_scenario(1, 2, 1);
  const auto transient = [&](int layers) {
    scenario.training.offload_activations = layers > 0;
    scenario.training.offload_layers = layers;
    return run(scenario).forecast.memory[0].transient;  // of the first of two stages, without a loss
  };
  const Bytes before = transient(0);
  const Bytes layer = layer_activation_bytes(scenario.model, run(scenario).plan, 0);
  CHECK(transient(1) - before == layer);
  CHECK(transient(3) - before == layer);
  CHECK(transient(4) - before == 3 * layer);
}

TEST_CASE("copies of the first layers are spread over all layers", "[graph][oracle]") {
  // Three of eight layers: L/n = 2, L mod n = 2. The copies begin after layers 0, 2 and 5 and are over after layers 2, 5 and 7:
  // they have 2, 3 and 2 layers' time, and at least 2 layers of the backward, which take twice as long.
  Scenario scenario = small_scenario(1, 1, 1);
  scenario.profile.host = {};  // the launches of the copies are not what is asked
  const ForecastRun plain = run(scenario);
  Duration forward;
  for (const Template& each : plain.graph.templates)
    if (each.phase == Phase::forward) forward = std::max(forward, time_alone(plain.graph, each));
  const double layer_s = seconds(forward) / 8;
  const auto layer_bytes = static_cast<double>(layer_activation_bytes(scenario.model, plain.plan, 0).count);
  scenario.training.offload_activations = true;
  scenario.training.offload_layers = 3;
  // Of a micro-batch, in layers; a copy lasts as long as `layers`.
  const auto exposed_layers = [&](double layers) {
    scenario.cluster.node.pcie = Bandwidth{std::llround(layer_bytes / (layers * layer_s))};
    return exposed(run(scenario), Traffic::offload) / 8 / layer_s;
  };
  CHECK(exposed_layers(1.9) < 0.1);
  CHECK(exposed_layers(2.5) == Approx(0.5 + 0 + 0.5).margin(0.25));
}

TEST_CASE("what layers do not hide of the copies is exposed: size / PCIe must fit into their time", "[graph]") {
  Scenario scenario = small_scenario(1, 1, 1);
  scenario.profile.host = {};  // the launches of the copies are not what is asked
  scenario.training.offload_activations = true;
  const auto step = [&](std::int64_t rate) {
    scenario.cluster.node.pcie = Bandwidth{rate};
    return run(scenario);
  };
  Scenario none = scenario;
  none.training.offload_activations = false;
  const double plain = run(none).forecast.step_time_s;
  // A link that is never the limit costs what passes through the GPU's memory, and nothing else; with a slow one the copies are the step.
  const Forecast fast = step(100'000'000'000'000).forecast;
  CHECK(fast.step_time_s - fast.compute_s.at("contention") == Approx(plain).epsilon(0.0001));
  const ForecastRun slow = step(1'000'000'000);
  const double out = static_cast<double>(copied(slow, Lane::to_host).size.count) / 1e9;
  CHECK(slow.forecast.step_time_s > 2 * 0.95 * out * 7 / 8);  // out in the forward, back in the backward
  CHECK(exposed(slow, Traffic::offload) > 0.9 * (slow.forecast.step_time_s - plain));
  CHECK(exposed(step(10'000'000'000), Traffic::offload) < exposed(slow, Traffic::offload));
}

TEST_CASE("offloaded activations under pipelines, split backwards and recomputation", "[graph][memory]") {
  for (const char* schedule : {"1f1b", "zb-h1", "zb-v", "gpipe"}) {
    CAPTURE(schedule);
    Scenario scenario = small_scenario(1, 4, 1);
    scenario.parallel.pp_schedule = schedule;
    if (std::string(schedule) == "zb-v") scenario.parallel.vpp = 2;
    const ForecastRun plain = run(scenario);
    scenario.training.offload_activations = true;
    const ForecastRun moved = run(scenario);
    CHECK(moved.forecast.memory[0].host > Bytes{});
    CHECK(moved.forecast.memory[0].activations < plain.forecast.memory[0].activations);
    CHECK(moved.timeline.step_time >= plain.timeline.step_time);
  }
  Scenario scenario = small_scenario(2, 1, 2);
  scenario.training.recompute = Recompute::full;
  scenario.training.offload_activations = true;
  CHECK(run(scenario).forecast.memory[0].host == 8 * Bytes{2 * 1024 * 1024 / 2});  // layer inputs
}

TEST_CASE("offloaded parameters: a rank's shard comes before every gather", "[graph][memory][oracle]") {
  Scenario scenario = small_scenario(1, 1, 8);
  scenario.training.global_batch_size = 8;
  scenario.parallel.zero_stage = 3;
  scenario.parallel.reshard_root = true;
  scenario.training.offload_optimizer = true;
  const ForecastRun optimizer = run(scenario);
  scenario.training.offload_parameters = true;
  const ForecastRun all = run(scenario);
  const std::int64_t n = parameter_count(scenario.model).total();
  const std::int64_t own = (n + 7) / 8;
  const auto bytes = [&](Bytes size) { return static_cast<double>(size.count) / (static_cast<double>(n) / 8); };
  // 4 bytes of each parameter of the shard for the forward, the same for the backward; none after the update.
  CHECK(bytes(copied(all, Lane::from_host).size) == Approx(2 * 4));
  CHECK(bytes(copied(all, Lane::to_host).size) == Approx(4));
  CHECK(copied(optimizer, Lane::from_host).size == Bytes{2 * own});
  // The host has fp32 weights, gradients, momentum and variance, which are all that FSDP has.
  CHECK(optimizer.forecast.memory[0].weights == Bytes{2 * own});
  CHECK(optimizer.forecast.memory[0].gradients == Bytes{});
  CHECK(all.forecast.memory[0].weights == Bytes{});
  CHECK(bytes(all.forecast.memory[0].host) == Approx(16));
}

TEST_CASE("offloaded gradients of DeepSpeed are added up on the host by way of the GPU", "[graph][memory][oracle]") {
  const auto moved = [](int stage, int microbatches) {
    Scenario scenario = small_scenario(1, 1, 8);
    scenario.training.global_batch_size = 8 * microbatches;
    scenario.parallel.zero_stage = stage;
    scenario.parallel.data_parallel = DataParallelKind::deepspeed;
    scenario.parallel.param_persistence_threshold = 1;
    scenario.training.offload_optimizer = true;
    const ForecastRun result = run(scenario);
    const double own = static_cast<double>(parameter_count(scenario.model).total()) / 8;
    return std::array{static_cast<double>(copied(result, Lane::to_host).size.count) / own,
                      static_cast<double>(copied(result, Lane::from_host).size.count) / own,
                      static_cast<double>(result.forecast.memory[0].host.count) / own};
  };
  // Down, up (with 2 bytes of the new parameters), and on the host: fp32 weights, momentum, variance and gradients, and a 16-bit sum.
  const auto check = [](const std::array<double, 3>& is, double down, double up, double host) {
    CHECK(is[0] == Approx(down).epsilon(1e-5));
    CHECK(is[1] == Approx(2 + up).epsilon(1e-5));
    CHECK(is[2] == Approx(host).epsilon(1e-5));
  };
  check(moved(1, 1), 4, 0, 16);
  check(moved(1, 4), 4, 0, 18);
  check(moved(2, 1), 4, 0, 16);
  check(moved(2, 4), 4 + 4 * 2, 3 * 2, 18);
  check(moved(3, 1), 4 + 2, 2, 18);
  check(moved(3, 4), 4 + 4 * 2, 4 * 2, 18);
}

TEST_CASE("copies of activations share PCIe with the collectives of a board without other links",
          "[graph][network][oracle]") {
  Scenario scenario = small_scenario(1, 1, 8);
  scenario.training.global_batch_size = 8;
  scenario.training.offload_activations = true;
  scenario.parallel.zero_stage = 3;
  const auto longest = [&](Lane lane) {
    const ForecastRun result = run(scenario);
    Duration most;
    for (const Template& each : result.graph.templates)
      for (const Op& op : each.ops)
        if (op.type == OpType::collective && op.stream == static_cast<StreamId>(lane))
          most = std::max(most, op.duration);
    return seconds(most);
  };
  const auto rate = static_cast<double>(scenario.cluster.node.pcie.bytes_per_second);
  const auto kept = static_cast<double>(layer_activation_bytes(scenario.model, run(scenario).plan, 0).count);
  const auto layer = static_cast<double>(layer_parameters(scenario.model, 0));
  CHECK(longest(Lane::to_host) == Approx(kept / rate));
  scenario.cluster.node.link = IntraLink::pcie;
  // A rank receives and sends 7/8 of the gathered weights, 2 bytes each, and in the backward of the gradients, 4 bytes.
  CHECK(longest(Lane::to_host) == Approx((kept + 7 * 2 * layer / 8) / rate));
  CHECK(longest(Lane::from_host) == Approx((kept + 7 * (2 + 4) * layer / 8) / rate));
}

TEST_CASE("offloading: incompatible settings are reported", "[plan][error]") {
  const auto message = [](const Parallel& parallel, const Training& training) {
    return error_text(make_plan(small_scenario(1, 1, 8).model, parallel, training, 8));
  };
  Training training = small_scenario(1, 1, 8).training;
  training.offload_parameters = true;
  CHECK(message({}, training) ==
        "training.offload_parameters = true: needs parallel.zero_stage 3 over several ranks\n"
        "training.offload_parameters = true: needs training.offload_optimizer: parameters wait where they are updated");
  training.offload_parameters = false;
  training.recompute_modules = {"norms"};
  CHECK(message({}, training) ==
        "training.recompute_modules = norms: is unknown (allowed: norm activation mla_up mlp shared_experts moe)");
  Scenario scenario = small_scenario(1, 1, 1);
  scenario.training.offload_activations = true;
  scenario.cluster.node.pcie = Bandwidth{0};
  CHECK(to_string(forecast(scenario).error())
            .find("training.offload_activations = true: needs a topology with node.pcie") != std::string::npos);
}
