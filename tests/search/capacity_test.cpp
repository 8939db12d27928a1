// Candidates between machines: what they cost, which constraint they miss, which of them nothing beats.
#include "sim/search/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/network/sites.hpp"
#include "sim/search/factor_hint.hpp"
#include "sim/search/uncertainty.hpp"
#include "tests/search/outcomes.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_CASE("a plan with a critical batch counts the tokens that each batch needs", "[row-4-9][requirements][search]") {
  // Two steps of one length, 1e6 and 4e6 tokens. Without a critical batch the larger is four times as fast; where 4e6 tokens
  // are critical it is 4 / (1 + 1) against 1 / (1 + 1/4): 2.5 times.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("fast", 100, {evaluation(10, 1, 0.1)})};
  machines[1].choice.scenario.training.global_batch_size = 4000;
  const Economics economics = prices();
  const auto days = [&](std::int64_t critical) {
    for (MachineOutcome& each : machines) each.choice.scenario.training.critical_batch_tokens = critical;
    const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 8.64e9}, &economics);
    REQUIRE(plan.candidates.size() == 2);
    CHECK(plan.candidates.front().machine == 1);
    const double ratio = plan.candidates.back().days / plan.candidates.front().days;
    CHECK(plan.runners_up.back().slower_by == Approx(ratio - 1));
    CHECK(plan.candidates.back().cost_usd->typical / plan.candidates.front().cost_usd->typical == Approx(ratio));
    return std::pair(plan.candidates.back().days, ratio);
  };
  CHECK(days(0).first == Approx(1));
  CHECK(days(0).second == Approx(4));
  CHECK(days(4'000'000).first == Approx(1.25));
  CHECK(days(4'000'000).second == Approx(2.5));
}

TEST_CASE("capacity: days, money and energy of a job by hand", "[search][oracle]") {
  // 1e6 tokens in 10 s on 100 GPUs: 1e5 tokens/s. 8.64e9 tokens are one day, 2,400 GPU-hours, at half goodput twice that.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)})};
  machines.front().choice.goodput = 0.5;
  const Economics economics = prices();
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 8.64e9}, &economics);
  const Candidate& candidate = plan.candidates.front();
  CHECK(candidate.tokens_per_s == Approx(1e5));
  CHECK(candidate.tokens_per_s_per_gpu == Approx(1e3));
  CHECK(candidate.days == Approx(2));
  CHECK(candidate.cost_usd->typical == Approx(4800 * 3));
  CHECK(candidate.cost_usd->low == Approx(4800 * 2));
  CHECK(candidate.usd_per_million_tokens->typical == Approx(4800.0 * 3 / 8640));
  CHECK(candidate.energy_mwh->typical == Approx(4800 * 1.86 / 1000));
  CHECK(plan.limit == "compute 80 %, exposed tensor parallel 10 %, pipeline bubble 10 %");
}

TEST_CASE("capacity: the objective decides between machines", "[search]") {
  // fast: 3 USD x 100 GPUs x 10 s; slow: 1 USD x 200 GPUs x 12 s: later, but cheaper.
  const std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1), evaluation(11, 1.9, 0.1)}),
                                             machine("slow", 200, {evaluation(12, 1, 0.1)})};
  const Economics economics = prices();
  const auto first = [&](Objective objective) {
    return rank_candidates(machines, objective, {.tokens = 1e12}, &economics).candidates.front().machine;
  };
  CHECK(first(Objective::time) == 0);
  CHECK(first(Objective::throughput) == 0);
  CHECK(first(Objective::cost) == 1);
  CHECK(first(Objective::energy) == 0);  // 1.86 kW x 1000 GPU-s against 0.78 kW x 2400
  CHECK(first(Objective::gpus) == 0);

  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 1e12}, &economics);
  CHECK(plan.pareto == std::vector<int>{0, 2});  // the second of the fast machine is beaten by its first
  CHECK(plan.trade_offs == std::vector{Objective::time, Objective::cost});
  const auto front = [&](std::vector<Objective> trade_offs) {
    return rank_candidates(machines, Objective::time, {.tokens = 1e12}, &economics,
                           {.trade_offs = std::move(trade_offs)})
        .pareto;
  };
  CHECK(front({Objective::time, Objective::energy}) == std::vector<int>{0});  // the slow machine needs more of both
  CHECK(front({Objective::time, Objective::energy, Objective::cost}) == std::vector<int>{0, 2});
  CHECK(plan.runners_up[1].slower_by == Approx(0.1));
  CHECK(plan.runners_up[1].cause == "exposed tensor parallel");
  CHECK(plan.runners_up[1].seconds == Approx(0.9));
  CHECK(plan.runners_up[2].slower_by == Approx(0.2));  // the other machine
  CHECK(plan.runners_up[2].cause.empty());             // parts of steps on other machines say nothing
}

TEST_CASE("capacity: layouts of two global batches compare by the token", "[search][oracle]") {
  // Twice the batch in 18 s is 9 s for as many tokens as the other's 10 s; the bubble of 1 s is spread over both halves.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("fast", 100, {evaluation(18, 1, 0.05)})};
  machines[1].choice.scenario.training.global_batch_size = 2000;
  for (const Objective objective : {Objective::time, Objective::throughput}) {
    const CapacityPlan plan = rank_candidates(machines, objective, {}, nullptr);
    CHECK(plan.candidates.front().machine == 1);
    CHECK(plan.runners_up[1].slower_by == Approx(10.0 / 9 - 1));
    // Per two of its steps: 2 s of exposed traffic and 2 s of bubble against 1 s and 0.9 s, compute 16 against 16.1.
    CHECK(plan.runners_up[1].cause == "pipeline bubble");
    CHECK(plan.runners_up[1].seconds == Approx(1.1));
    CHECK(plan.pareto == std::vector<int>{0});
  }
}

TEST_CASE("capacity: candidates that violate a constraint come last, with the constraint", "[search]") {
  const std::vector<MachineOutcome> machines{machine("slow", 200, {evaluation(12, 1, 0.1)}),
                                             machine("fast", 100, {evaluation(10, 1, 0.1)})};
  const Economics economics = prices();
  // 1e12 tokens: slow 138.9 days, fast 115.7.
  const CapacityPlan in_time = rank_candidates(machines, Objective::cost, {.tokens = 1e12, .days = 120}, &economics);
  CHECK(in_time.candidates[0].machine == 1);
  CHECK(in_time.candidates[0].misses.empty());
  CHECK(in_time.candidates[1].misses == "takes 138.9 days, not 120");
  const CapacityPlan cheap =
      rank_candidates(machines, Objective::time, {.tokens = 1e12, .budget_usd = 700'000}, &economics);
  CHECK(cheap.candidates[0].machine == 0);
  CHECK(cheap.candidates[1].misses == "costs 833333 USD, not 700000 USD");
  const CapacityPlan unknown = rank_candidates(machines, Objective::time, {.tokens = 1e12, .budget_usd = 1}, nullptr);
  CHECK(unknown.candidates[0].misses == "has no known price");
  // None is in time: fewer GPUs cost as much and come last, since they miss the deadline by more.
  const std::vector<MachineOutcome> sizes{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                          machine("fast", 200, {evaluation(5.1, 1, 0.1)})};
  const CapacityPlan late = rank_candidates(sizes, Objective::gpus, {.tokens = 1e12, .days = 10}, &economics);
  CHECK(late.candidates[0].machine == 1);
  CHECK(missed_by(late.candidates[0], late.target) == Approx(2.55));  // doublings of 10 to 59.03 days
  // Both cost too much, and nearly the same: the days count, too.
  const std::vector<MachineOutcome> dear{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                         machine("fast", 400, {evaluation(2.51, 1, 0.1)})};
  const JobTarget both{.tokens = 1e12, .days = 10, .budget_usd = 1000};
  CHECK(rank_candidates(dear, Objective::gpus, both, &economics).candidates[0].machine == 1);
}

TEST_CASE("capacity: days and money with their uncertainty, by hand", "[search][oracle]") {
  // One day at the middle. The step is log-normal with a 90 % interval of 8 to 12.5 s around 10 s, so that its P10 and P90 are
  // 10 exp(-+1.2816 sigma) with sigma = ln(12.5 / 8) / 3.2897.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1), evaluation(10.5, 1.5, 0.1)})};
  machines.front().facts = {{.goodput = 1, .step_p5_s = 8, .step_p95_s = 12.5},
                            {.goodput = 1, .step_p5_s = 8.4, .step_p95_s = 13.125}};
  const Economics economics = prices();
  const CapacityPlan plan =
      rank_candidates(machines, Objective::time, {.tokens = 8.64e9, .days = 1, .budget_usd = 1e9}, &economics);
  const Candidate& first = plan.candidates.front();
  REQUIRE(first.days_quantiles.has_value());
  CHECK(first.days_quantiles->p10 == Approx(0.8405).epsilon(0.01));
  CHECK(first.days_quantiles->p50 == Approx(1).epsilon(0.01));
  CHECK(first.days_quantiles->p90 == Approx(1.1898).epsilon(0.01));
  CHECK(*first.within_days == Approx(0.5).margin(0.02));
  CHECK(*first.within_budget == 1);
  // 2,400 GPU-hours at 2 to 4 USD, 3 most often: wider than the days alone.
  CHECK(first.cost_quantiles_usd->p50 == Approx(7200).epsilon(0.02));
  CHECK(first.cost_quantiles_usd->p90 / first.cost_quantiles_usd->p10 > 1.1898 / 0.8405);
  CHECK(plan.candidates[1].equals_first);
  CHECK_FALSE(
      rank_candidates({machine("fast", 100, {evaluation(10, 1, 0.1)})}, Objective::time, {.tokens = 1e9}, &economics)
          .candidates.front()
          .days_quantiles.has_value());
}

TEST_CASE("capacity: half of the costs are above that of the typical price", "[search][oracle]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)})};
  machines.front().facts = {{.goodput = 1, .step_p5_s = 9.99, .step_p95_s = 10.01}};
  Economics economics = prices();
  economics.gpus["fast"].price = Range3{2, 3, 9};  // the median of a triangle would be 4.4
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 8.64e9, .days = 1}, &economics);
  const Quantiles& cost = plan.candidates.front().cost_quantiles_usd.value();
  CHECK(cost.p50 == Approx(7200).epsilon(0.02));
  // 20 % of either side's half of the area: sqrt(0.2) from its end.
  CHECK(cost.p10 == Approx(2400 * (2 + std::sqrt(0.2))).epsilon(0.02));
  CHECK(cost.p90 == Approx(2400 * (9 - 6 * std::sqrt(0.2))).epsilon(0.02));
}

TEST_CASE("capacity: a layout with a better goodput is ranked first, although its step is longer", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1), evaluation(10.1, 1, 0.1)})};
  machines.front().facts = {{.goodput = 0.9}, {.goodput = 0.95}};
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 1e12}, nullptr, {.best = 1});
  REQUIRE(plan.candidates.size() == 1);
  CHECK(plan.candidates.front().evaluation.step_time_s == 10.1);
  CHECK(plan.candidates.front().goodput == 0.95);
}

TEST_CASE("capacity: a machine without a price changes nothing for the others", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("slow", 200, {evaluation(12, 1, 0.1)})};
  const Economics economics = prices();
  const auto front = [&] { return rank_candidates(machines, Objective::time, {.tokens = 1e12}, &economics).pareto; };
  CHECK(front() == std::vector<int>{0, 1});
  machines.push_back(machine("unknown", 50, {evaluation(11, 1, 0.1)}));  // second by time, with the fewest GPUs
  CHECK(front() == std::vector<int>{0, 2});
}

TEST_CASE("capacity: the GPUs that make a date likely", "[search]") {
  std::vector<MachineOutcome> machines;
  for (const auto& [gpus, step] : {std::pair(100, 10.0), std::pair(200, 5.5)}) {
    machines.push_back(machine("fast", gpus, {evaluation(step, 1, 0.1)}));
    machines.back().facts = {{.goodput = 1, .step_p5_s = step * 0.8, .step_p95_s = step / 0.8}};
  }
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 8.64e9, .days = 0.6}, nullptr);
  const std::vector<LikelySize> sizes = likely_sizes(plan);  // 100 GPUs need a day; 200 are at 0.55 days +- 13.6 %
  REQUIRE(sizes.size() == 3);
  CHECK(sizes[0].gpus == 200);
  CHECK(!sizes[1].gpus);
  CHECK(!sizes[2].gpus);
  CHECK(sizes[2].most_likely == 200);
  CHECK(sizes[2].most == Approx(0.74).margin(0.01));
}

TEST_CASE("capacity: with a budget, more GPUs may be less likely to keep it", "[search]") {
  std::vector<MachineOutcome> machines;
  for (const auto& [gpus, step] : {std::pair(100, 10.0), std::pair(200, 5.5)}) {  // 200 cost a tenth more
    machines.push_back(machine("fast", gpus, {evaluation(step, 1, 0.1)}));
    machines.back().facts = {{.goodput = 1, .step_p5_s = step * 0.8, .step_p95_s = step / 0.8}};
  }
  const Economics economics = prices();
  const std::vector<LikelySize> sizes =
      likely_sizes(rank_candidates(machines, Objective::time, {.tokens = 8.64e9, .budget_usd = 7200}, &economics));
  REQUIRE(sizes.size() == 3);
  CHECK(!sizes[2].gpus);
  CHECK(sizes[2].most_likely == 100);
  CHECK(sizes[2].most == Approx(0.5).margin(0.05));
}

TEST_CASE("capacity: in time and within the budget at once is less likely than either", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)})};
  machines.front().facts = {{.goodput = 1, .step_p5_s = 8, .step_p95_s = 12.5}};
  const Economics economics = prices();
  const Candidate first =
      rank_candidates(machines, Objective::time, {.tokens = 8.64e9, .days = 1, .budget_usd = 7200}, &economics)
          .candidates.front();
  CHECK(*first.within_days == Approx(0.5).margin(0.02));
  CHECK(*first.within_budget == Approx(0.5).margin(0.05));
  CHECK(*first.within_target < std::min(*first.within_days, *first.within_budget) - 0.05);
  CHECK(*first.within_target > *first.within_days * *first.within_budget);  // a short step is cheap as well
}

TEST_CASE("capacity: factors of the GPUs that the batch lacks", "[search]") {
  CHECK(factor_hint(1024, 512).empty());
  CHECK(factor_hint(1152, 1152).empty());
  CHECK(factor_hint(1152, 2048) ==
        "1152 GPUs have a factor 9 that a global batch of 2048 lacks, so that tensor, pipeline or context parallelism "
        "must "
        "have it (--global-batch 2304 would free it)");
  CHECK(factor_hint(96, 30).empty());  // one factor of 3 on both sides
  // At most a quarter more or less: 3 x 512, 125 x 16; where no power of two is near, the nearest multiple.
  CHECK(factor_hint(384, 2048).find("(--global-batch 1536 would free it)") != std::string::npos);
  CHECK(factor_hint(1000, 2048).find("(--global-batch 2000 would free it)") != std::string::npos);
  CHECK(factor_hint(7, 16).find("(--global-batch 14 would free it)") != std::string::npos);
}

TEST_CASE("capacity: all constraints that a candidate violates are named", "[search]") {
  const std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)})};
  const Economics economics = prices();
  const JobTarget target{.tokens = 8.64e9, .days = 0.5, .budget_usd = 100};
  CHECK(rank_candidates(machines, Objective::time, target, &economics).candidates.front().misses ==
        "takes 1.00 days, not 0.5 and costs 7200 USD, not 100 USD");
  const JobTarget large{.tokens = 8.64e12, .budget_usd = 1.5e6};
  CHECK(rank_candidates(machines, Objective::time, large, &economics).candidates.front().misses ==
        "costs 7.20 million USD, not 1.50 million USD");
  // Three digits, as in the column of days: 0.312 of them.
  const std::vector<MachineOutcome> faster{machine("faster", 100, {evaluation(3.12, 1, 0.1)})};
  CHECK(rank_candidates(faster, Objective::time, {.tokens = 8.64e9, .days = 0.25}, &economics)
            .candidates.front()
            .misses == "takes 0.312 days, not 0.25");
}

TEST_CASE("capacity: an owned rack is paid whole, and machines that use it in part do not look cheaper", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 576, {evaluation(10, 1, 0.1)}),
                                       machine("fast", 576, {evaluation(10, 1, 0.1)})};
  machines[0].choice.scenario.cluster.node = {.gpus = 64, .installed_gpus = 72, .gpus_per_host = 4};
  machines[1].choice.scenario.cluster.node = {.gpus = 72, .gpus_per_host = 4};
  Economics economics = prices();
  economics.term = Term::owned;
  const CapacityPlan plan = rank_candidates(machines, Objective::cost, {.tokens = 8.64e9}, &economics);
  CHECK(plan.candidates[0].machine == 1);
  CHECK(plan.candidates[1].cost_usd->typical / plan.candidates[0].cost_usd->typical == Approx(648.0 / 576));
  CHECK(plan.candidates[1].money.back().name == "unused GPUs");
}

TEST_CASE("capacity: owned machines share years, interest and building", "[search]") {
  // Two GPUs, the second twice as dear with equal steps. Quotes of one value: all that is uncertain is common to both, and the
  // ratio stays near 2, though the price of each spans a factor of more than 2.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("slow", 100, {evaluation(10, 1, 0.1)})};
  for (MachineOutcome& each : machines) each.facts = {{.goodput = 1, .step_p5_s = 9.9, .step_p95_s = 10.1}};
  Economics economics = prices();
  economics.term = Term::owned;
  economics.ownership = Ownership{.years = {3, 5, 8}, .usd_per_kwh = {0.05, 0.1, 0.2}};
  economics.ownership->capital_rate = {0.02, 0.1, 0.15};
  economics.gpus["fast"] = {.tdp_watts = 1000, .purchase = Range3{20000, 20000, 20000}};
  economics.gpus["slow"] = {.tdp_watts = 1000, .purchase = Range3{40000, 40000, 40000}};
  const CapacityPlan plan = rank_candidates(machines, Objective::cost, {.tokens = 8.64e9}, &economics);
  const Candidate& second = plan.candidates[1];
  CHECK(second.cost_quantiles_usd->p90 / second.cost_quantiles_usd->p10 > 1.5);
  CHECK(second.ratio_to_first->p90 / second.ratio_to_first->p10 < 1.1);
  CHECK_FALSE(second.equals_first);
}

TEST_CASE("capacity: spares are paid for, and the lines of money sum to the cost", "[search][oracle]") {
  // As above, 4,800 GPU-hours of 100 GPUs, and 8 spare ones for as long: 384 more at 3 USD. 481 g of CO2 per kWh.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)})};
  machines.front().facts = {{.goodput = 0.5, .spare_gpus = 8}};
  Economics economics = prices();
  economics.grids["world"] = {.gco2_per_kwh = 500, .source = ""};
  const Candidate first = rank_candidates(machines, Objective::cost, {.tokens = 8.64e9}, &economics).candidates.front();
  CHECK(first.cost_usd->typical == Approx((4800 + 384) * 3));
  REQUIRE(first.money.size() == 2);
  CHECK(first.money[0].name == "rent");
  CHECK(first.money[0].usd == Approx(4800 * 3));
  CHECK(first.money[1].name == "spare nodes");
  CHECK(first.money[1].usd == Approx(384 * 3));
  CHECK(first.energy_mwh->typical == Approx(4800 * 1.86 / 1000));
  CHECK(first.co2_tonnes->typical == Approx(4800 * 1.86 / 1000 * 0.5));
}

TEST_CASE("capacity: a machine without a price leaves every figure of the others as it was", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("slow", 200, {evaluation(12, 1, 0.1)})};
  for (MachineOutcome& each : machines) each.facts = {{.goodput = 0.9, .step_p5_s = 8, .step_p95_s = 14}};
  const Economics economics = prices();
  for (const Objective objective : {Objective::cost, Objective::energy, Objective::gpus}) {
    const CapacityPlan without = rank_candidates(machines, objective, {.tokens = 1e12, .days = 140}, &economics);
    std::vector<MachineOutcome> more = machines;
    more.push_back(machine("unknown", 300, {evaluation(13, 1, 0.1)}));
    more.back().facts = {{.goodput = 0.9}};
    const CapacityPlan with = rank_candidates(more, objective, {.tokens = 1e12, .days = 140}, &economics);
    REQUIRE(with.candidates.size() == 3);
    CHECK(with.candidates.back().machine == 2);
    CHECK(with.pareto == without.pareto);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(with.candidates[i].cost_usd == without.candidates[i].cost_usd);
      CHECK(with.candidates[i].cost_quantiles_usd->p50 == without.candidates[i].cost_quantiles_usd->p50);
      CHECK(with.candidates[i].misses == without.candidates[i].misses);
      CHECK(with.candidates[i].equals_first == without.candidates[i].equals_first);
    }
  }
}

TEST_CASE("capacity: the quantiles of a job that hardly progresses are around its mean", "[search][oracle]") {
  // A tenth of a percent of goodput: 8.64e9 tokens at 100,000 tokens/s take 1,000 days instead of one.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)})};
  machines.front().facts = {{.goodput = 0.001, .step_p5_s = 8, .step_p95_s = 12.5}};
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 8.64e9}, nullptr);
  const Candidate& only = plan.candidates.front();
  REQUIRE(only.days_quantiles.has_value());
  CHECK(only.days_quantiles->p50 == Approx(1000).epsilon(0.01));
}

TEST_CASE("capacity: errors that two candidates share cancel in their ratio", "[search][oracle]") {
  // Two layouts on one machine, 20 % apart, each with sigma = ln(12.5 / 8) / 3.2897 = 0.1357. Independent errors would give
  // the ratio a sigma of 0.1919 and a P10 of 1.2 exp(-0.246) = 0.938; 34 % of the variance in common leave 0.1559, and a
  // P10 of 1.2 exp(-0.1998) = 0.9827.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1), evaluation(12, 1.5, 0.1)})};
  machines.front().facts = {{.goodput = 1, .step_p5_s = 8, .step_p95_s = 12.5},
                            {.goodput = 1, .step_p5_s = 9.6, .step_p95_s = 15}};
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 8.64e9}, nullptr);
  const Candidate& second = plan.candidates[1];
  REQUIRE(second.ratio_to_first.has_value());
  CHECK(second.days_quantiles->p10 < plan.candidates[0].days_quantiles->p90);
  CHECK(second.ratio_to_first->p10 == Approx(0.9827).epsilon(0.015));
  CHECK(second.ratio_to_first->p50 == Approx(1.2).epsilon(0.01));
  CHECK(second.ratio_to_first->p90 == Approx(1.4654).epsilon(0.015));
  // On another GPU less is in common: 15 % apart, sigma 0.1357 sqrt(2 x 0.81) = 0.1727, P10 1.15 exp(-0.2213) = 0.922.
  machines.push_back(machine("slow", 100, {evaluation(11.5, 1.5, 0.1)}));
  machines.back().facts = {{.goodput = 1, .step_p5_s = 9.2, .step_p95_s = 14.375}};
  machines.front().result.best.pop_back();
  machines.front().facts.pop_back();
  const CapacityPlan two = rank_candidates(machines, Objective::time, {.tokens = 8.64e9}, nullptr);
  CHECK(two.candidates[1].ratio_to_first->p10 == Approx(0.922).epsilon(0.015));
  CHECK(two.candidates[1].equals_first);
  // The same price on both sides cancels as well.
  const Economics economics = prices();
  MachineOutcome twin = machines.front();
  twin.choice.topology = "another-machine";
  const CapacityPlan money = rank_candidates({machines.front(), twin}, Objective::cost, {.tokens = 8.64e9}, &economics);
  CHECK(money.candidates[1].ratio_to_first->p90 == Approx(std::exp(1.2816 * 0.1523)).epsilon(0.015));
}

TEST_CASE("capacity: the ratio of throughputs counts tokens, not sequences", "[search][oracle]") {
  // Sequences of twice the tokens in twice the time.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("fast", 100, {evaluation(20, 2, 0.1)})};
  machines[0].facts = {{.goodput = 1, .step_p5_s = 8, .step_p95_s = 12.5}};
  machines[1].facts = {{.goodput = 1, .step_p5_s = 16, .step_p95_s = 25}};
  machines[1].choice.scenario.training.seq_length = 2000;
  const CapacityPlan plan = rank_candidates(machines, Objective::throughput, {}, nullptr);
  CHECK(plan.candidates[1].ratio_to_first->p50 == Approx(1).epsilon(0.01));
  CHECK(plan.candidates[1].equals_first);
}

TEST_CASE("capacity: padding does not train", "[search][packing][oracle]") {
  // The first is 20 % faster, but half of its tokens are padding: 2 x 10 s against 12 s for a million tokens.
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("fast", 100, {evaluation(12, 1, 0.1)})};
  machines[0].facts = {{.goodput = 1, .step_p5_s = 8, .step_p95_s = 12.5, .counted_share = 0.5}};
  machines[1].facts = {{.goodput = 1, .step_p5_s = 9.6, .step_p95_s = 15}};
  const Economics economics = prices();
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 8.64e9}, &economics);
  const Candidate& packed = plan.candidates[0];
  const Candidate& padded = plan.candidates[1];
  REQUIRE(padded.machine == 0);
  CHECK(packed.days == Approx(8640 * 12.0 / 86400));
  CHECK(padded.days == Approx(8640 * 20.0 / 86400));
  CHECK(padded.cost_usd->typical / packed.cost_usd->typical == Approx(20.0 / 12));
  CHECK(padded.days_quantiles->p50 == Approx(padded.days).epsilon(0.01));
  CHECK(padded.ratio_to_first->p50 == Approx(20.0 / 12).epsilon(0.01));
  CHECK(plan.runners_up[1].slower_by == Approx(20.0 / 12 - 1));
  CHECK(padded.tokens_per_s == Approx(1e5));  // all of them
}

TEST_CASE("capacity: variants with the same run are one candidate", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("fast", 100, {evaluation(10, 1, 0.1), evaluation(12, 1, 0.1)}),
                                       machine("slow", 100, {evaluation(10, 1, 0.1)})};
  machines[1].choice.variant = "training.recompute_num_layers=2";
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {}, nullptr);
  REQUIRE(plan.candidates.size() == 3);
  CHECK(plan.candidates[0].machine == 0);
  CHECK(plan.candidates[1].machine == 2);
  CHECK(plan.candidates[2].evaluation.step_time_s == 12);
}

TEST_CASE("capacity: where histories say nothing about the length of the job, nor is its money known", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1)}),
                                       machine("slow", 200, {evaluation(12, 1, 0.1)})};
  for (MachineOutcome& each : machines)
    each.facts = {{.goodput = 0.9, .goodput_sd = 0.01, .step_p5_s = 9, .step_p95_s = 13}};
  machines[0].facts[0].why_no_days = "nobody knows";
  const Economics economics = prices();
  const JobTarget target{.tokens = 8.64e9, .days = 30, .budget_usd = 1e6};
  const CapacityPlan plan = rank_candidates(machines, Objective::time, target, &economics);
  CHECK(plan.candidates[0].machine == 1);
  CHECK(plan.candidates[0].misses.empty());
  const Candidate& unknown = plan.candidates[1];
  CHECK(unknown.misses == "takes an unknown number of days");
  CHECK(unknown.days == 0);
  CHECK(unknown.step_quantiles_s);
  CHECK_FALSE(unknown.days_quantiles);
  CHECK_FALSE(unknown.cost_usd);
  CHECK_FALSE(unknown.usd_per_million_tokens);
  CHECK_FALSE(unknown.within_target);
  CHECK_FALSE(unknown.ratio_to_first);
}
