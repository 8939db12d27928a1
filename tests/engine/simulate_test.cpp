#include "sim/engine/simulate.hpp"

#include <utility>

#include <catch2/catch.hpp>

#include "sim/cost/costs.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/builder.hpp"
#include "sim/network/simgrid.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;

namespace {

/// Every rank of a small job: tp 2, so that data-parallel groups and pipeline messages share NICs.
ForecastRun whole_job(const Scenario& scenario) {
  return *forecast(scenario, {.unfold = true, .network = NetworkKind::isolated, .transfers_slow_compute = false});
}

Result<Timeline> simulate_on(const Cluster& cluster, const StepGraph& graph, NetworkKind kind = NetworkKind::fluid,
                             const EngineOptions& options = {}) {
  return simulate(graph, {kind, cluster, "Hopper"}, options);
}

Scenario job(int tp, int pp, int dp) {
  Scenario scenario = test::small_scenario(tp, pp, dp);
  scenario.parallel.zero_stage = 1;
  scenario.parallel.overlap_grad_reduce = true;
  scenario.parallel.overlap_param_gather = true;
  return scenario;
}

TEST_CASE("Shared links: links without contention change nothing", "[differential][engine]") {
  for (const auto& [tp, pp, dp] : {std::tuple{2, 4, 4}, std::tuple{1, 2, 8}, std::tuple{4, 2, 4}}) {
    const Scenario scenario = job(tp, pp, dp);
    const ForecastRun run = whole_job(scenario);
    Cluster wide = scenario.cluster;
    wide.node.gpu_link.bytes_per_second *= 100;
    wide.node.nic_rate.bytes_per_second *= 100;
    for (const bool spans : {false, true}) {
      const auto shared = simulate_on(wide, run.graph, NetworkKind::fluid, {.record_spans = spans});
      REQUIRE(shared);
      CHECK(shared->step_time == run.timeline.step_time);
      CHECK(shared->ranks == run.timeline.ranks);
      CHECK(shared->events == run.timeline.events);
    }
  }
}

TEST_CASE("Shared links: a step as SimGrid runs it, flow by flow", "[differential][engine]") {
  if (!simgrid_is_built_in()) {
    WARN("skipped: this build has no SimGrid");
    return;
  }
  for (const auto& [tp, pp, dp] : {std::tuple{2, 2, 8}, std::tuple{1, 2, 16}}) {
    Scenario scenario = job(tp, pp, dp);
    scenario.cluster.node.nic_rate.bytes_per_second /= 8;  // so that transfers contend for links
    const ForecastRun run = whole_job(scenario);
    const auto fluid = simulate_on(scenario.cluster, run.graph);
    const auto reference = simulate_on(scenario.cluster, run.graph, NetworkKind::simgrid);
    REQUIRE(fluid);
    REQUIRE(reference);
    CHECK(seconds(fluid->step_time) == Approx(seconds(reference->step_time)).epsilon(0.03));
    CHECK(fluid->step_time > run.timeline.step_time);  // something was shared
  }
}

TEST_CASE("Shared links: slower NICs take longer", "[metamorphic][engine]") {
  Duration before;
  for (const std::int64_t slower : {1, 2, 4}) {
    Scenario scenario = job(1, 2, 16);
    scenario.cluster.node.nic_rate.bytes_per_second /= slower;
    const auto shared = simulate_on(scenario.cluster, whole_job(scenario).graph);
    REQUIRE(shared);
    CHECK(shared->step_time > before);
    before = shared->step_time;
  }
}

TEST_CASE("Shared links: network faults slow the step", "[metamorphic][engine]") {
  Scenario healthy = job(1, 2, 16);
  healthy.cluster.node.nic_rate.bytes_per_second /= 8;
  Scenario halved = healthy;
  for (int nic = 0; nic < 32; ++nic) halved.cluster.faults.slow_nics.push_back({nic / 8, nic % 8, 0.5});
  const StepGraph graph = whole_job(halved).graph;
  const auto step_time = [&graph](const Scenario& on) { return simulate_on(on.cluster, graph)->step_time; };
  // The same transfers, costed for halved NICs, contend only where the links are slow as well.
  CHECK(step_time(halved).picoseconds > step_time(healthy).picoseconds);
  Scenario hole = job(1, 2, 15);
  hole.cluster.faults.missing_gpus[0] = 1;
  CHECK(simulate_on(hole.cluster, whole_job(hole).graph));
}

TEST_CASE("Shared links: transfers that move longer than the engine counts are refused", "[error][engine]") {
  Scenario scenario = job(2, 1, 8);
  scenario.cluster.node.nic_rate.bytes_per_second /= 8;  // so that transfers contend for links
  StepGraph graph = whole_job(scenario).graph;
  for (CostedCollective& each : graph.collectives)
    if (each.traffic == Traffic::gradients) each.cost.duration = {3 * (kLongestSharing.picoseconds / 4)};
  for (const Profile* const slowing_gpu : {static_cast<const Profile*>(nullptr), &std::as_const(scenario.profile)})
    CHECK(error_text(simulate_on(scenario.cluster, graph, NetworkKind::fluid, {.slowing_gpu = slowing_gpu})) ==
          "transfers that share links make a step longer than 26.7 days");
}

}  // namespace
