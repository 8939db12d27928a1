// What a learned router costs, against the published pairs 9 and 11 (scenarios/runs/published-pairs.csv).
#include <catch2/catch.hpp>

#include "tests/support/forecast_run.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

TEST_CASE("routing: what a learned router costs in Megatron's published pairs", "[accuracy][forecast][moe]") {
  const auto cost = [](std::vector<std::string> overrides) {
    const auto step_s = [&](const char* routing) {
      std::vector<std::string> all = overrides;
      all.push_back(std::string("training.expert_routing=") + routing);
      return test::run(shipped_scenario("qwen3-235b-router-256", all)).forecast.step_time_s;
    };
    return step_s("skewed") / step_s("even");
  };
  // The default of expert_skew was chosen from the first pair; no choice has seen the second.
  CHECK(cost({}) == Approx(1.245).margin(0.02));
  CHECK(cost({"parallel.cp=4", "training.seq_length=65536"}) == Approx(1.150).margin(0.03));
}
