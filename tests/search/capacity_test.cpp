// Candidates between machines: what they cost, which constraint they miss, which of them nothing beats.
#include "sim/search/capacity.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Evaluation evaluation(double step_s, double exposed_tensor_s, double bubble) {
  Evaluation e;
  e.fits = true;
  e.step_time_s = step_s;
  e.bubble_fraction = bubble;
  e.exposed_s[static_cast<std::size_t>(Traffic::tensor_parallel)] = exposed_tensor_s;
  e.compute_s = step_s * (1 - bubble) - exposed_tensor_s;
  return e;
}

/// A step is 1,000 sequences of 1,000 tokens.
MachineOutcome machine(const std::string& gpu, int gpus, std::vector<Evaluation> best) {
  MachineOutcome outcome;
  outcome.choice.topology = gpu + "-machine";
  outcome.choice.gpus = gpus;
  outcome.choice.scenario.profile.name = gpu;
  outcome.choice.scenario.training.global_batch_size = 1000;
  outcome.choice.scenario.training.seq_length = 1000;
  outcome.result.best = std::move(best);
  return outcome;
}

Economics prices() {
  Economics economics;
  economics.gpus["fast"] = {Range3{2, 3, 4}, 1000};
  economics.gpus["slow"] = {Range3{0.5, 1, 1.5}, 400};
  economics.node_power = {1, 1.5, 2};
  economics.network_watts = {0, 50, 100};
  economics.pue = {1, 1.2, 1.5};
  return economics;
}

}  // namespace

TEST_CASE("economics: the power of a GPU includes its share of node, network and building", "[search][oracle]") {
  const Economics economics = prices();
  const Range3 power = economics.kilowatts_per_gpu("fast").value();
  CHECK(power.low == Approx(1.0));  // 1000 W x 1
  CHECK(power.typical == Approx((1500 + 50) * 1.2 / 1000));
  CHECK(power.high == Approx((2000 + 100) * 1.5 / 1000));
  CHECK_FALSE(economics.kilowatts_per_gpu("other").has_value());
  CHECK_FALSE(economics.price_per_gpu_hour("other").has_value());
}

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
  CHECK(cheap.candidates[1].misses == "costs 833333 USD, not 700000");
  const CapacityPlan unknown = rank_candidates(machines, Objective::time, {.tokens = 1e12, .budget_usd = 1}, nullptr);
  CHECK(unknown.candidates[0].misses == "has no known price");
}

TEST_CASE("an owned GPU costs depreciation and power per hour", "[search]") {
  Economics economics;
  economics.gpus["h100"].purchase = Range3{8766, 17532, 26298};
  economics.gpus["h100"].tdp_watts = 1000;
  CHECK_FALSE(economics.price_per_gpu_hour("h100").has_value());  // years are not known
  economics.ownership = Ownership{{1, 2, 4}, {0.25, 0.5, 1}};
  // 1 dollar an hour over one year each 8,766 dollars; the cheapest is used longest. 1 kW at 25, 50 and 100 cents.
  const Range3 price = economics.price_per_gpu_hour("h100").value();
  CHECK(price.low == Approx(1.0 / 4 + 0.25));
  CHECK(price.typical == Approx(2.0 / 2 + 0.5));
  CHECK(price.high == Approx(3.0 / 1 + 1));
  economics.gpus["h100"].price = Range3{7, 8, 9};  // a rental price counts first
  CHECK(economics.price_per_gpu_hour("h100") == Range3{7, 8, 9});
}

TEST_CASE("each upgrade changes what its name says, and nothing else", "[oracle][search]") {
  MachineChoice machine;
  machine.scenario = shipped_scenario("zero-1-7.5b");
  machine.gpus = machine.scenario.cluster.world_size;
  const Scenario& before = machine.scenario;
  std::vector<Scenario> tried;
  const EvaluatorOf evaluator = [&](const Scenario& scenario) {
    tried.push_back(scenario);
    return [](SearchRound round) { return std::vector<Evaluation>(round.size()); };
  };
  try_upgrades(machine, SearchSpace{}, evaluation(10, 1, 0.1), {}, evaluator);
  REQUIRE(tried.size() == 7);
  const auto rates = [](const Scenario& s) {
    return std::pair(s.cluster.node.nic_rate.bytes_per_second, s.cluster.node.gpu_link.bytes_per_second);
  };
  CHECK(rates(tried[0]) == std::pair(2 * rates(before).first, rates(before).second));
  CHECK(rates(tried[1]) == std::pair(rates(before).first, 2 * rates(before).second));
  CHECK(tried[2].profile.memory.count * 2 == before.profile.memory.count * 3);
  CHECK(tried[3].profile.memory_bandwidth == Approx(1.5 * before.profile.memory_bandwidth));
  CHECK(tried[4].profile.peak_flops.at(Precision::bf16) == Approx(1.5 * before.profile.peak_flops.at(Precision::bf16)));
  CHECK(tried[5].training.global_batch_size == 2 * before.training.global_batch_size);
  CHECK(tried[6].profile.host.launch == 0);
  CHECK(tried[6].profile.host.step_overhead == 0);
  for (const std::size_t i : {2U, 3U, 4U, 5U, 6U}) CHECK(rates(tried[i]) == rates(before));
  for (const std::size_t i : {0U, 1U, 2U, 3U, 4U, 6U})
    CHECK(tried[i].training.global_batch_size == before.training.global_batch_size);
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

TEST_CASE("capacity: a layout with a better goodput is ranked first, although its step is longer", "[search]") {
  std::vector<MachineOutcome> machines{machine("fast", 100, {evaluation(10, 1, 0.1), evaluation(10.1, 1, 0.1)})};
  machines.front().facts = {{.goodput = 0.9}, {.goodput = 0.95}};
  const CapacityPlan plan = rank_candidates(machines, Objective::time, {.tokens = 1e12}, nullptr, 1);
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
  CHECK(sizes[1].gpus == 0);  // 74 % likely
  CHECK(sizes[2].gpus == 0);
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
        "have it (--global-batch 2052 would free it)");
  CHECK(factor_hint(96, 30).empty());  // one factor of 3 on both sides
}
