/// Steps whose steady state is skipped, against the same steps simulated period by period.
#include <algorithm>
#include <random>
#include <string_view>

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/results.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;

namespace {

struct Both {
  Timeline skipped;
  Timeline simulated;
};

Both run(const Scenario& scenario, NetworkKind network, bool unfold) {
  const ForecastOptions options{.unfold = unfold, .network = network};
  const ForecastRun run = value_of(forecast(scenario, options));
  const EngineOptions engine{.slowing_gpu = &scenario.profile};
  const EngineOptions every{.every_period = true, .slowing_gpu = &scenario.profile};
  return {simulate(run.graph, run.network, engine).value(), simulate(run.graph, run.network, every).value()};
}

void check_equal(const Both& both) {
  CHECK(both.simulated.skipped == 0);
  CHECK(both.skipped.step_time == both.simulated.step_time);
  CHECK(both.skipped.ranks == both.simulated.ranks);
  CHECK(both.skipped.events == both.simulated.events);
}

Scenario long_job(int tp, int pp, int dp, int microbatches) {
  Scenario scenario = test::small_scenario(tp, pp, dp);
  scenario.training.global_batch_size = std::int64_t{dp} * microbatches * scenario.training.micro_batch_size;
  return scenario;
}

TEST_CASE("steady state: skipped periods change no picosecond", "[differential][engine]") {
  int skipped = 0;
  for (const char* schedule : {"1f1b", "zb-h1", "gpipe", "interleaved-1f1b"})
    for (const NetworkKind network : {NetworkKind::isolated, NetworkKind::fluid}) {
      Scenario scenario = long_job(2, 4, 4, 64);
      scenario.parallel.pp_schedule = schedule;
      scenario.profile.host.launch = 0;
      if (std::string_view(schedule) == "interleaved-1f1b") scenario.parallel.vpp = 2;
      const Both both = run(scenario, network, false);
      INFO(schedule);
      check_equal(both);
      skipped += both.skipped.skipped > both.skipped.events / 4 ? 1 : 0;
    }
  CHECK(skipped >= 3);
}

/// Launch times of a job's host, each `step` times the one before.
struct LaunchTimes {
  double first = 0;
  double last = 0;
  double step = 1;
};

/// Some of the steps must skip periods, and none may change by that.
void check_hosts(Scenario scenario, const LaunchTimes& times) {
  int skipped = 0;
  for (double launch = times.first; launch < times.last; launch *= times.step) {
    scenario.profile.host.launch = launch;
    const Both both = run(scenario, NetworkKind::fluid, false);
    INFO("launch " << launch);
    check_equal(both);
    skipped += both.skipped.skipped > 0 ? 1 : 0;
  }
  CHECK(skipped > 0);
}

/// A host that is a little slower than its GPU is ahead for many periods before it decides a start.
TEST_CASE("steady state: hosts of all speeds", "[differential][engine]") {
  check_hosts(long_job(2, 4, 2, 96), {1e-6, 5e-5, test::kSanitized ? 1.2 : 1.02});
}

/// The last rank's host has more to issue than the first rank's, and is ahead by the time that the first activation takes to come.
/// Where it needs a little longer than the slowed first rank, it decides no start until that lead is used up.
TEST_CASE("steady state: a host that is ahead and slower decides later", "[differential][engine]") {
  Scenario scenario = long_job(1, 8, 1, 192);
  scenario.parallel.overlap_p2p = true;  // hosts wait for no message
  scenario.perturbation.slow_ranks = {{{0, 0}, 1.13}};
  check_hosts(scenario, {1.4e-5, 1.6e-5, 1.002});
}

/// Random layouts with slow ranks, slow hosts and one rank after the other, so that some steps never repeat.
TEST_CASE("steady state: random jobs take the same time with and without every period", "[property][engine]") {
  std::mt19937 random(20261128);
  const auto pick = [&](std::initializer_list<int> of) { return of.begin()[random() % of.size()]; };
  int skipped = 0;
  const int jobs = test::cases(120);
  for (int i = 0; i < jobs; ++i) {
    const int pp = pick({1, 2, 4, 4});
    Scenario scenario = long_job(pick({1, 2, 4}), pp, pick({1, 2, 4}), pp * pick({6, 16, 32, 48}));
    scenario.parallel.zero_stage = pick({0, 1});
    scenario.parallel.overlap_grad_reduce = pick({0, 1}) == 1;
    scenario.parallel.overlap_p2p = pick({0, 1}) == 1;
    if (pp > 1 && pick({0, 1}) == 1) {
      scenario.parallel.vpp = 2;
      scenario.parallel.pp_schedule = "interleaved-1f1b";
    }
    scenario.profile.host.launch *= pick({0, 0, 0, 1, 10});
    if (pick({0, 1, 2}) == 0)
      scenario.perturbation.slow_ranks = {{{0, 0}, 1.0 + 0.01 * static_cast<double>(random() % 30)}};
    scenario.cluster.node.nic_rate.bytes_per_second /= pick({1, 4, 16});
    const Both both =
        run(scenario, pick({0, 0, 0, 0, 1}) == 0 ? NetworkKind::fluid : NetworkKind::isolated, pick({0, 1, 2}) == 0);
    INFO("job " << i);
    check_equal(both);
    skipped += both.skipped.skipped > 0 ? 1 : 0;
  }
  CHECK(skipped >= std::max(1, jobs / 10));
}

}  // namespace
