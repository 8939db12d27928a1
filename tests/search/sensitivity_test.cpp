#include "sim/search/sensitivity.hpp"

#include <vector>

#include <catch2/catch.hpp>

#include "tests/search/outcomes.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("sensitivity: what puts another machine first", "[search][oracle]") {
  // fast: 100 GPUs, 10 s, 3 USD (2 to 4); slow: 200 GPUs, 12 s, 1 USD (0.5 to 1.5). Costs of a step as 3000 and 2400: slow
  // is first. At 2 USD fast costs 2000, at 1.5 USD slow costs 3600; both costs meet where a fast GPU-hour costs 2.4.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("slow", 200, {evaluation(12, 1, 0.1)})};
  machines[0].facts = {{.goodput = 0.9}};
  machines[1].facts = {{.goodput = 0.9}};
  const Economics economics = prices();
  const CapacityPlan plan = rank_candidates(machines, Objective::cost, {.tokens = 1e12}, &economics);
  const Sensitivity found = sensitivity(plan, &economics);
  CHECK(found.tried == 6);  // both ends of two prices, and of the time lost to failures
  REQUIRE(found.flips.size() == 2);
  CHECK(found.flips[0].assumption == "fast at 2 USD per GPU-hour");
  CHECK(found.flips[1].assumption == "slow at 1.5 USD per GPU-hour");
  CHECK(found.flips[0].candidate == 1);
  REQUIRE(found.break_evens.size() == 1);
  CHECK(found.break_evens[0].gpu == "fast");
  CHECK(found.break_evens[0].usd == Approx(2.4));
  CHECK(found.break_evens[0].price == Range3{2, 3, 4});
  // Time: only the step itself counts, 10 against 12 s, with 5 and 95 % at +- 30 %: each alone may change the order.
  for (MachineOutcome& each : machines) {
    const double step = each.result.best.front().step_time_s;
    each.facts = {{.goodput = 1, .step_p5_s = step / 1.3, .step_p95_s = step * 1.3}};
  }
  const CapacityPlan quick = rank_candidates(machines, Objective::time, {.tokens = 1e12}, &economics);
  const Sensitivity steps = sensitivity(quick, &economics);
  CHECK(steps.tried == 4);
  REQUIRE(steps.flips.size() == 2);  // 1.3^sqrt(1 - 0.19) = 1.2664 > 1.2
  CHECK(steps.flips[0].assumption == "steps on fast-machine 27 % longer than forecast");
  CHECK(steps.flips[1].assumption == "steps on slow-machine 21 % shorter than forecast");
  machines.pop_back();
  CHECK(sensitivity(rank_candidates(machines, Objective::time, {.tokens = 1e12}, nullptr), nullptr).tried == 0);
}
