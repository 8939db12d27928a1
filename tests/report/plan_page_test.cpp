#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/report/plan_report.hpp"
#include "tests/search/outcomes.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

/// Of one machine with a layout (two sizes of it with a date) and `refused` without one.
std::string page(int refused, bool has_layout, const JobTarget& target = {}) {
  std::vector<MachineOutcome> machines;
  if (has_layout) {
    const Scenario scenario = shipped_scenario("zero-1-7.5b");
    Evaluation best = test::evaluation(10, 1, 0.1);
    best.layout = layout_of(scenario);
    machines.push_back(test::machine("v100", scenario.cluster.world_size, {best}));
    machines.front().choice.scenario = scenario;
    if (target.days > 0) {  // with a second size
      machines.front().facts = {{.goodput = 1, .step_p5_s = 9, .step_p95_s = 11}};
      machines.push_back(machines.front());
      machines.back().choice.gpus *= 2;
    }
  }
  PlanReport report;
  report.plan = rank_candidates(machines, Objective::time, target, nullptr);
  for (int i = 1; i <= refused; ++i) report.refusals.push_back("machine " + std::to_string(i) + " has no layout.");
  return plan_page(report, {});
}

bool says(const std::string& page, const std::string& words) { return page.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("plan page: beside layouts it says why three machines have none, and counts the others", "[report][tight]") {
  for (int refused = 0; refused <= 5; ++refused) {
    CAPTURE(refused);
    const std::string beside = page(refused, true);
    const std::string alone = page(refused, false);
    for (int i = 1; i <= 5; ++i) {
      const std::string sentence = "machine " + std::to_string(i) + " has no layout.";
      CHECK(says(beside, sentence) == (i <= std::min(refused, 3)));
      CHECK(says(alone, sentence) == (i <= refused));
    }
    CHECK(says(beside, "more without a layout: --json says why.") == (refused > 3));
    CHECK(says(beside, std::to_string(refused - 3) + " more without a layout") == (refused > 3));
    CHECK(says(alone, "No layout fits.") == (refused == 0));
  }
}

TEST_CASE("plan page: a date that no size makes likely is said once", "[report][tight]") {
  const std::string text = page(0, true, {.tokens = 1e15, .days = 1});
  CAPTURE(text);
  CHECK(says(text, "v100-machine: none of those searched (at most 0 %, with "));
  CHECK_FALSE(says(text, "none for "));
}
