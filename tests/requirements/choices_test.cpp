// Requirements on choosing a layout and on inspecting a run.
#include <algorithm>
#include <cmath>
#include <optional>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/model/scaling.hpp"
#include "sim/report/perfetto.hpp"
#include "sim/search/planner.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::run;
using tracecast::test::small_scenario;

TEST_CASE("a search over layouts, micro-batches and checkpointing ranks them and reports what does not fit",
          "[row-0-18][requirements][search]") {
  const Scenario scenario =
      shipped_scenario("llama2-13b-abci", {"cluster.world_size=32", "training.global_batch_size=64"});
  SearchSpace space;
  space.tp = {1, 2, 4, 8};
  space.pp = {1, 2, 4};
  space.micro_batch_size = {1, 2};
  space.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  const SearchResult all = search(scenario, space, {.best = 3, .threads = 1, .exhaustive = true});
  CHECK(all.counts.layouts == 4 * 3 * 2 * 3);
  CHECK(all.counts.layouts == all.counts.impossible + all.counts.out_of_memory + all.counts.simulated);
  CHECK(all.counts.out_of_memory > 0);
  REQUIRE(all.best.size() == 3);
  CHECK(all.best[0].mfu >= all.best[1].mfu);
  CHECK(all.best[1].mfu >= all.best[2].mfu);
  for (const Evaluation& each : all.simulated) CHECK(each.step_time_s >= all.best[0].step_time_s);
}

TEST_CASE("the best layout depends on the fabric", "[row-0-33][requirements][search]") {
  // LLaMA-2 13B, one short sequence per GPU: with eight NICs of 200 Gb/s to a node FSDP is the fastest, with four, two
  // GPUs to each, stages and tensor parallelism, which send less between nodes.
  const auto best_on = [](const std::string& topology) {
    const Scenario scenario =
        shipped_scenario("llama2-13b-abci", {"cluster.topology=" + topology, "cluster.world_size=64",
                                             "training.global_batch_size=64", "training.seq_length=1024"});
    SearchSpace space;
    space.tp = {1, 2, 4, 8};
    space.pp = {1, 2, 4};
    space.zero_stage = {1, 3};
    const SearchResult found = search(scenario, space, {.best = 1, .threads = 1});
    REQUIRE_FALSE(found.best.empty());
    return found.best.front().layout;
  };
  const Layout wide = best_on("dgx-a100");
  const Layout narrow = best_on("abci-a");
  CHECK(wide.zero_stage == 3);
  CHECK(wide.pp == 1);
  CHECK(narrow.pp > 1);
  CHECK_FALSE(wide == narrow);
}

TEST_CASE(
    "a search for 405B on 16,384 GPUs uses data, tensor and pipeline parallelism and ZeRO; the best without any "
    "one of them is slower or does not fit",
    "[row-1-39][requirements][search]") {
  const Scenario scenario = shipped_scenario("llama3-405b-16k");
  SearchSpace space;
  space.tp = {1, 2, 4, 8, 16};
  space.pp = {1, 2, 4, 8, 16, 32, 64};
  space.vpp = {1, 2, 4, 8};
  space.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  space.zero_stage = {0, 1, 2, 3};
  if (test::kSanitized) {
    space.tp = {1, 8};
    space.pp = {1, 8, 16};
    space.vpp = {1, 4};
    space.zero_stage = {0, 1};
  }
  const auto best = [&](const SearchSpace& choices) {
    const SearchResult found = search(scenario, choices, {.best = 1, .threads = 1});
    return found.best.empty() ? std::nullopt : std::optional(found.best.front());
  };
  const std::optional<Evaluation> all = best(space);
  REQUIRE(all);
  CHECK(all->layout.tp > 1);
  CHECK(all->layout.pp > 1);
  CHECK(all->layout.zero_stage > 0);
  CHECK(16384 / (all->layout.tp * all->layout.pp) > 1);
  const auto worse = [&](auto limit) {
    SearchSpace less = space;
    limit(less);
    const std::optional<Evaluation> without = best(less);
    return !without || without->step_time_s > 1.01 * all->step_time_s;
  };
  CHECK(worse([](SearchSpace& s) { s.tp = {1}; }));
  CHECK(worse([](SearchSpace& s) { s.pp = s.vpp = {1}; }));
  CHECK(worse([](SearchSpace& s) { s.zero_stage = {0}; }));
  // Without data parallelism: 128 heads and 126 layers with their two ends are just enough. 4 is the fastest micro-batch.
  SearchSpace alone = space;
  alone.tp = alone.pp = {128};
  alone.vpp = {1};
  alone.micro_batch_size = {test::kSanitized ? 16 : 4};
  alone.recompute = {Recompute::none};
  alone.zero_stage = {0};
  const std::optional<Evaluation> without_data = best(alone);
  REQUIRE(without_data);
  CHECK(without_data->step_time_s > 2 * all->step_time_s);
}

TEST_CASE("the best micro-batch lies inside: a larger one has more bubble, a smaller one slower kernels",
          "[row-3-31][row-4-23][requirements][cost]") {
  std::vector<double> times;
  for (const int micro_batch : {1, 2, 4, 8, 16, 32}) {
    Scenario scenario = small_scenario(1, 4, 1);
    scenario.training.seq_length = 512;
    scenario.training.global_batch_size = 64;
    scenario.training.micro_batch_size = micro_batch;
    times.push_back(run(scenario).forecast.step_time_s);
  }
  const auto least = std::ranges::min_element(times);
  CHECK(least != times.begin());
  CHECK(least != times.end() - 1);
  CHECK(times.front() > 1.05 * *least);
  CHECK(times.back() > 1.05 * *least);
}

TEST_CASE("the planner takes the largest micro-batch that fits where it is the fastest",
          "[row-1-21][requirements][search]") {
  Scenario scenario = small_scenario(1, 1, 1);
  scenario.training.seq_length = 4096;
  scenario.training.global_batch_size = 64;
  SearchSpace space;
  space.micro_batch_size = {1, 2, 4, 8, 16, 32, 64};
  space.zero_stage = {0};
  const SearchResult found = search(scenario, space, {.best = 1, .threads = 1, .exhaustive = true});
  REQUIRE_FALSE(found.best.empty());
  CHECK(found.counts.out_of_memory > 0);
  std::int64_t most = 0;
  for (const Evaluation& each : found.simulated)
    if (each.fits) most = std::max(most, each.layout.micro_batch_size);
  CHECK(most < 64);
  CHECK(found.best.front().layout.micro_batch_size == most);
}

TEST_CASE("continued pre-training costs per step what pre-training costs, frozen layers less",
          "[row-2-12][requirements][plan]") {
  Scenario scenario = small_scenario(1, 1, 2);
  const double scratch = run(scenario).forecast.step_time_s;
  scenario.training.train_tokens = 20'000'000'000;
  CHECK(run(scenario).forecast.step_time_s == scratch);
  scenario.training.frozen_fraction = 0.5;
  CHECK(run(scenario).forecast.step_time_s < 0.8 * scratch);
}

TEST_CASE("every class of ranks has its timeline in one trace, and the report the mean of them",
          "[row-0-34][requirements][report]") {
  const Scenario scenario = small_scenario(2, 4, 2);
  const ForecastRun result = run(scenario, {.record_spans = true});
  const std::vector<int> chosen{3, 9};
  const std::vector<TracedRank> ranks = traced_ranks(result, chosen).value();
  CHECK(ranks.size() == 4 + 2);  // a class per stage, and the chosen ones
  std::string trace;
  CHECK(write_trace(result.graph, result.timeline, ranks, scenario.name, [&](std::string_view piece) {
    trace += piece;
    return true;
  }));
  for (const TracedRank& rank : ranks) CHECK(trace.find(rank.name) != std::string::npos);
  // Compute, waits of every kind, host and optimizer are the step, of every rank and so of their mean.
  const Forecast& f = result.forecast;
  double sum = f.host_s + f.optimizer_s + f.bubble_fraction * f.step_time_s;
  for (const auto& [kind, time] : f.compute_s) sum += time;
  for (const double exposed : f.exposed_s) sum += exposed;
  CHECK(sum == Approx(f.step_time_s));
}

TEST_CASE("the power law's quantities are there: compute, parameters and tokens follow from each other",
          "[row-1-1][requirements][model]") {
  const double compute = compute_of(70e9, 1.4e12, ComputeRule::six_nd);
  CHECK(compute == Approx(5.88e23));
  const ModelBudget budget = compute_optimal(compute);
  CHECK(budget.parameters == Approx(70e9));
  CHECK(budget.tokens == Approx(1.4e12));
  // Ten times the compute is sqrt(10) of each.
  CHECK(compute_optimal(10 * compute).parameters == Approx(std::sqrt(10.0) * 70e9));
}

TEST_CASE("parameters, gradients, optimizer states and activations against the GPU's memory",
          "[row-3-44][requirements][memory]") {
  for (const char* name : {"llama2-7b-one-gpu", "p5-llama3-70b-32", "llama3-405b-1024"}) {
    CAPTURE(name);
    const Forecast f = run(shipped_scenario(name)).forecast;
    Bytes tightest;
    for (const MemoryByKind& m : f.memory) {
      CHECK(m.total() ==
            m.weights + m.gradients + m.optimizer + m.activations + m.transient + m.fixed + m.fragmentation);
      tightest = std::max(tightest, m.total());
    }
    CHECK(f.memory[static_cast<std::size_t>(f.tightest_pp_rank)].total() == tightest);
    CHECK(f.fits == (tightest <= f.memory_capacity));
  }
}
