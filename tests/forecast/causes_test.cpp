// Where the time of a step goes: waits for a slow rank, and what leaving something out would save.
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using tracecast::test::exposed;

namespace {

Forecast forecast_of(const std::string& scenario, const std::vector<std::string>& overrides, bool explain = false) {
  const ForecastOptions options{.explain = explain};
  return forecast(shipped_scenario(scenario, overrides), options).value().forecast;
}

double bubble(const Forecast& forecast) { return forecast.bubble_fraction * forecast.step_time_s; }

}  // namespace

TEST_CASE("waiting for a slow rank is bubble, also behind transfers that wait for it", "[forecast]") {
  // FSDP gathers and ZeRO-1's reductions queue on one stream: all but the first wait for the slow rank behind others.
  struct Case {
    const char* scenario;
    Traffic traffic;
  };
  for (const Case& each :
       {Case{"torchtitan-llama3-8b-8gpu", Traffic::parameters}, Case{"llama2-7b-abci", Traffic::gradients}}) {
    CAPTURE(each.scenario);
    const Forecast healthy = forecast_of(each.scenario, {});
    const Forecast slow = forecast_of(each.scenario, {"perturb.slow_rank.3=1.3"});
    const double longer = slow.step_time_s - healthy.step_time_s;
    REQUIRE(longer > 0.1 * healthy.step_time_s);
    CHECK(bubble(slow) - bubble(healthy) > 0.75 * longer);
    CHECK(exposed(slow, each.traffic) - exposed(healthy, each.traffic) < 0.15 * longer);
  }
}

TEST_CASE("causes of a mean over steps of packed documents save nothing that they do not take", "[forecast]") {
  const Forecast packed = forecast_of("llama3-8b-packed", {"training.documents.steps=2"}, true);
  REQUIRE(packed.packed);
  for (const Cause& cause : packed.causes) {
    CAPTURE(cause.name);
    if (cause.name == "control communication") CHECK(1 - cause.step_without_s / packed.step_time_s < 1e-3);
    CHECK(cause.step_without_s <= packed.step_time_s);
  }
}

TEST_CASE("causes of a mean over a period save what they save in each of its steps", "[forecast]") {
  const auto without = [](const Forecast& step, const std::string& name) {
    for (const Cause& cause : step.causes)
      if (cause.name == name) return cause.step_without_s;
    FAIL("no cause " << name);
    return 0.0;
  };
  const Forecast local = forecast_of("diloco-10b", {"parallel.averaging_period=0"}, true);
  const Forecast every = forecast_of("diloco-10b", {"parallel.averaging_period=1"}, true);
  const Forecast mean = forecast_of("diloco-10b", {}, true);
  REQUIRE(mean.averaging->period == 100);
  double path = 0;
  for (const Cause& cause : mean.causes) {
    CAPTURE(cause.name);
    path += cause.on_critical_path_s;
    CHECK(cause.step_without_s ==
          Approx(0.99 * without(local, cause.name) + 0.01 * without(every, cause.name)).epsilon(1e-9));
  }
  CHECK(path == Approx(mean.step_time_s));
  // Without communication between replicas and within them the GPUs still compute.
  double compute = 0;
  for (const auto& [kind, time_s] : mean.compute_s) compute += time_s;
  CHECK(without(mean, "parameters communication") > 0.95 * compute);
}
