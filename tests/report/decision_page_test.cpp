#include "sim/report/decision_page.hpp"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/search/outcomes.hpp"

using namespace tracecast;
using namespace tracecast::test;

namespace {

/// 8.64e9 tokens in 0.6 days, for the least money: 100 GPUs of a step of 6 s cost least, 200 are faster.
PlanReport report_of(const std::vector<std::pair<const char*, int>>& machines) {
  std::vector<MachineOutcome> outcomes;
  for (const auto& [gpu, gpus] : machines) {
    const double step = 5.95 * 100 / gpus + 0.4;
    outcomes.push_back(machine(gpu, gpus, {evaluation(step, 0.1, 0.1)}));
    outcomes.back().facts = {{.goodput = 1, .step_p5_s = step * 0.8, .step_p95_s = step / 0.8}};
  }
  PlanReport report{.scenario = "own"};
  report.economics = prices();
  report.plan = rank_candidates(outcomes, Objective::cost, {.tokens = 8.64e9, .days = 0.65}, &report.economics);
  return report;
}

}  // namespace

TEST_CASE("decision page: the question has the GPUs that were compared", "[report]") {
  const auto says = [](const std::vector<std::pair<const char*, int>>& machines, const std::string& words) {
    return decision_page(report_of(machines), {}).find(words) != std::string::npos;
  };
  CHECK(says({{"fast", 200}, {"fast", 100}}, "on 100 or 200 GPUs of fast-machine, within 0.65 days?"));
  CHECK(says({{"fast", 100}, {"slow", 100}}, "on 100 GPUs of fast-machine or slow-machine, within"));
  CHECK(says({{"fast", 100}, {"slow", 200}}, "on 100 GPUs of fast-machine or 200 GPUs of slow-machine, within"));
  CHECK(says({{"fast", 100}, {"fast", 110}, {"fast", 120}, {"fast", 130}, {"fast", 140}, {"fast", 150}},
             "on 100 to 150 (6 sizes) GPUs of fast-machine, within"));
}

TEST_CASE("decision page: where the first is not likely to meet the target, the likeliest is named", "[report]") {
  const std::string page = decision_page(report_of({{"fast", 100}, {"fast", 200}}), {});
  CHECK(page.find("Take 100 GPUs of fast-machine") != std::string::npos);
  CHECK(page.find("it meets the target with 5") != std::string::npos);
  CHECK(page.find(" % probability; 200 GPUs of fast-machine (") != std::string::npos);
  CHECK(page.find("meet it with 100 % probability") != std::string::npos);
  // The only size is the likeliest.
  CHECK(decision_page(report_of({{"fast", 100}}), {}).find("meet it with") == std::string::npos);
}

TEST_CASE("decision page: days that are not known are said to be so", "[report]") {
  PlanReport report = report_of({{"fast", 100}});
  std::vector<MachineOutcome> machines = report.plan.machines;
  machines[0].facts[0].why_no_days = "nobody knows";
  report.plan = rank_candidates(machines, Objective::cost, {.tokens = 8.64e9}, &report.economics);
  const std::string page = decision_page(report, {});
  CHECK(page.find("of which the days are not known (nobody knows)") != std::string::npos);
  CHECK(page.find("<td>not known</td>") != std::string::npos);
  CHECK(page.find("no price") == std::string::npos);
}
