#include "sim/graph/merge_jobs.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/network/simgrid.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;

namespace {

using namespace literals;

/// Pairs of nodes below a leaf of `oversubscription` to 1, so that both jobs cross the same uplinks.
Scenario job(int tp, int pp, int dp, double oversubscription) {
  Scenario scenario = test::small_scenario(tp, pp, dp);
  scenario.name = "small " + std::to_string(tp);
  scenario.cluster.fabric = FabricKind::fat_tree;
  scenario.cluster.tiers = {{"leaf", 2, oversubscription, {}}, {"spine", 0, 1, {}}};
  return scenario;
}

const ForecastOptions kUnslowed{.transfers_slow_compute = false};  // as simulate() alone does

TEST_CASE("Two jobs in one graph that meet nowhere take what each takes alone", "[differential][graph]") {
  const ForecastRun first = *forecast(job(2, 2, 4, 1), kUnslowed);
  const ForecastRun second = *forecast(job(4, 4, 2, 1), kUnslowed);
  const StepGraph both = merge_jobs(first.graph, second.graph);
  CHECK(both.total_ranks() == 48);
  const Result<Timeline> timeline = simulate(both);
  REQUIRE(timeline);
  std::vector<Duration> ends = first.timeline.ends;
  ends.insert(ends.end(), second.timeline.ends.begin(), second.timeline.ends.end());
  CHECK(timeline->ends == ends);
  CHECK(timeline->step_time == std::max(first.timeline.step_time, second.timeline.step_time));
  CHECK(timeline->events == first.timeline.events + second.timeline.events);
}

TEST_CASE("Steps one after the other", "[metamorphic][graph]") {
  Scenario scenario = job(2, 2, 4, 1);
  scenario.parallel.zero_stage = 1;
  scenario.parallel.overlap_grad_reduce = scenario.parallel.overlap_param_gather = true;
  const ForecastRun one = *forecast(scenario, kUnslowed);
  for (const int steps : {1, 2, 5}) {
    const Result<Timeline> timeline = simulate(repeated(one.graph, steps));
    REQUIRE(timeline);
    CHECK(timeline->events == steps * one.timeline.events);
    CHECK(timeline->step_time <= steps * one.timeline.step_time);  // less where one step begins while another ends
    CHECK(10 * timeline->step_time.picoseconds > 9 * steps * one.timeline.step_time.picoseconds);
    for (std::size_t rank = 0; rank < one.timeline.ranks.size(); ++rank)
      CHECK(timeline->ranks[rank].compute == steps * one.timeline.ranks[rank].compute);
  }
}

TEST_CASE("A co-located job with shorter steps repeats them while the step of the job lasts", "[metamorphic][report]") {
  const Scenario one = job(1, 1, 32, 16);
  Scenario other = one;
  other.training.global_batch_size = 32;  // one micro-batch, where the job has eight
  // The job's gradients move at the end of its step, long after the first step of the co-located job.
  const Forecast beside = forecast_colocated(one, {other}, {.network = NetworkKind::fluid}).value().forecast;
  CHECK(beside.step_time_s > beside.undisturbed_step_s);
}

TEST_CASE("What a co-located job costs does not include what the job's own transfers take from its compute",
          "[metamorphic][report]") {
  const auto beside = [](bool slows) {
    Scenario scenario = job(1, 2, 8, 0.01);  // uplinks that are never full
    scenario.profile.host = {};              // else launches hide what kernels lose
    scenario.parallel.overlap_grad_reduce = true;
    scenario.parallel.ddp_bucket_size = 1'000'000;  // leaves while the backward goes on
    return forecast_colocated(scenario, {scenario}, {.transfers_slow_compute = slows}).value();
  };
  const ForecastRun slowed = beside(true);
  CHECK(slowed.forecast.step_time_s > beside(false).forecast.step_time_s);
  CHECK(slowed.forecast.step_time_s == slowed.forecast.undisturbed_step_s);
  CHECK_FALSE(slowed.graph.loads);  // they would be those of both jobs
  std::size_t communicators = 0;
  for (const Rank& rank : slowed.graph.ranks)
    for (const std::int32_t each : rank.communicators)
      communicators = std::max(communicators, static_cast<std::size_t>(each + 1));
  CHECK(communicators > 0);
  CHECK(slowed.graph.communicators.size() == communicators);  // those of the other job are gone
}

TEST_CASE("A co-located job slows a job on oversubscribed uplinks only", "[metamorphic][report]") {
  for (const double oversubscription : {0.01, 4.0}) {
    INFO(oversubscription << ":1");
    const auto beside = forecast_colocated(job(1, 1, 32, oversubscription), {job(1, 1, 32, oversubscription)},
                                           {.network = NetworkKind::fluid});
    REQUIRE(beside);
    const Forecast& forecast = beside->forecast;
    REQUIRE(forecast.perturbations.size() == 1);
    CHECK(forecast.perturbations[0].what == "small 1 runs on the nodes in between");
    CHECK(forecast.perturbations[0].step_without_s == forecast.undisturbed_step_s);
    CHECK(beside->graph.total_ranks() == 32);
    for (const RankTime& rank : beside->timeline.ranks) CHECK(rank.total() == beside->timeline.step_time);
    if (oversubscription > 1)
      CHECK(forecast.step_time_s > 1.01 * forecast.undisturbed_step_s);
    else
      CHECK(forecast.step_time_s == forecast.undisturbed_step_s);
  }
}

TEST_CASE("Three jobs: each is slowed by the others where its placement makes them share uplinks",
          "[metamorphic][report]") {
  Scenario one = job(1, 1, 16, 4);  // two nodes
  one.cluster.tiers.front().nodes = 2;
  const auto together = [&](JobPlacement placement) {
    return forecast_colocated(one, {one, one}, {}, placement).value().forecast;
  };
  // A unit of two nodes each: no job leaves its own.
  const Forecast compact = together(JobPlacement::compact);
  CHECK(compact.step_time_s == compact.undisturbed_step_s);
  REQUIRE(compact.co_located.size() == 2);
  for (const CoLocatedJob& other : compact.co_located) CHECK(other.step_s == other.alone_s);
  CHECK(compact.perturbations.front().what == "small 1, small 1 run on the nodes after it");
  // In turn, and over all units, each job has its nodes in two units, whose uplinks two jobs share.
  for (const JobPlacement placement : {JobPlacement::interleaved, JobPlacement::spread}) {
    const Forecast shared = together(placement);
    CHECK(shared.step_time_s > 1.01 * shared.undisturbed_step_s);
    for (const CoLocatedJob& other : shared.co_located) CHECK(other.step_s > 1.01 * other.alone_s);
  }
}

TEST_CASE("Two jobs on one fabric as SimGrid runs them, flow by flow", "[differential][report]") {
  if (!simgrid_is_built_in()) {
    WARN("skipped: this build has no SimGrid");
    return;
  }
  const auto step = [](NetworkKind network) {
    return forecast_colocated(job(1, 1, 16, 4), {job(1, 2, 8, 4)}, {.network = network})->forecast.step_time_s;
  };
  CHECK(step(NetworkKind::fluid) == Approx(step(NetworkKind::simgrid)).epsilon(0.05));
}

TEST_CASE("Neighbours that cannot be are refused", "[error][report]") {
  const auto sentence = [](const Scenario& one, const Scenario& other) {
    return error_text(forecast_colocated(one, {other}, {.network = NetworkKind::fluid}));
  };
  Scenario one = job(1, 1, 16, 1);
  Scenario other = job(1, 1, 16, 1);
  one.cluster.faults.lost_rails = {0, 1, 2, 3};
  other.cluster.faults.lost_rails = {4, 5, 6, 7};
  CHECK(sentence(one, other) == "--co-located = small 1: perturb.lost_rails of all jobs together leaves no NIC");
  one = other = job(1, 1, 16, 1);
  other.cluster.name = "elsewhere";
  CHECK(sentence(one, other).find("--co-located = small 1: runs on elsewhere, the job on dgx-h100") == 0);
  other = one;
  other.cluster.faults.missing_gpus[0] = 1;
  CHECK(sentence(one, other).find("co-located jobs use whole nodes") != std::string::npos);
  one.cluster.max_nodes = 3;
  CHECK(sentence(one, one).find("all jobs need 4 nodes (allowed: 3)") != std::string::npos);
}

}  // namespace
