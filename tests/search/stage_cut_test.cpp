// Cuts for machines with GPUs of several kinds: against all cuts, simulated.
#include "sim/search/stage_cut.hpp"

#include <algorithm>
#include <limits>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/search/capacity.hpp"
#include "sim/search/planner.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::small_scenario;

namespace {

/// 8 layers on two nodes; the ranks of `slow` have GPUs that need `factor` times as long.
Scenario two_generations(int pp, RankRange slow, double factor) {
  Scenario scenario = small_scenario(1, 1, 16);
  scenario.parallel.pp = pp;
  scenario.parallel.dp = 0;
  scenario.training.seq_length = 4096;
  scenario.training.global_batch_size = 128;
  scenario.profile.host = {};  // launches are as fast on both
  Profile old = scenario.profile;
  for (auto& [precision, flops] : old.peak_flops) flops /= factor;
  old.memory_bandwidth /= factor;
  scenario.perturbation.gpus = {{slow, "old", old}};
  return scenario;
}

Layout pipeline(int pp, int vpp = 1) {
  Layout layout;
  layout.pp = pp;
  layout.vpp = vpp;
  return layout;
}

double step_of(Scenario scenario, const std::vector<int>& layers) {
  scenario.parallel.pp_layout = layers;
  return forecast(scenario).value().forecast.step_time_s;
}

}  // namespace

TEST_CASE("stage cut: of all cuts the planned one is the fastest", "[oracle][search]") {
  const bool slow_first = GENERATE(true, false);
  const Scenario scenario = two_generations(2, slow_first ? RankRange{0, 7} : RankRange{8, 15}, 2);
  std::vector<std::pair<double, std::vector<int>>> all;
  for (int first = 1; first < 8; ++first)
    all.emplace_back(step_of(scenario, {first, 8 - first}), std::vector{first, 8 - first});
  const Layout layout = pipeline(2);
  const std::vector<int> planned = StageCuts(scenario).best(layout)->layers;
  CAPTURE(planned);
  CHECK(step_of(scenario, planned) <= 1.03 * std::ranges::min(all).first);
  CHECK((planned.front() < planned.back()) == slow_first);
  CHECK(step_of(scenario, planned) < 0.95 * step_of(scenario, {4, 4}));
  CHECK(with_layout(scenario, layout).parallel.pp_layout == planned);
}

TEST_CASE("stage cut: three stages, the slow one in the middle", "[oracle][search]") {
  Scenario scenario = two_generations(4, {4, 7}, 3);
  scenario.cluster.node.nic_rate.bytes_per_second *= 10;  // the rule weighs layers, not what a stage waits for messages
  double best = std::numeric_limits<double>::max();
  for (int a = 1; a < 6; ++a)
    for (int b = 1; a + b < 7; ++b)
      for (int c = 1; a + b + c < 8; ++c) best = std::min(best, step_of(scenario, {a, b, c, 8 - a - b - c}));
  const std::vector<int> planned = StageCuts(scenario).best(pipeline(4))->layers;
  CAPTURE(planned);
  CHECK(planned[1] == 1);
  CHECK(step_of(scenario, planned) <= 1.03 * best);
}

TEST_CASE("stage cut: a stage is as fast as the slowest of its GPUs", "[search]") {
  // One slow GPU makes its whole stage slow.
  CHECK(StageCuts(two_generations(2, {15, 15}, 2)).best(pipeline(2))->layers ==
        StageCuts(two_generations(2, {8, 15}, 2)).best(pipeline(2))->layers);
  CHECK(StageCuts(two_generations(2, {0, 15}, 1)).best(pipeline(2))->layers == std::vector{4, 4});
  const std::vector<int> chunks = StageCuts(two_generations(2, {8, 15}, 3)).best(pipeline(2, 2))->layers;
  REQUIRE(chunks.size() == 4);
  CHECK(chunks[0] + chunks[2] > chunks[1] + chunks[3]);
  CHECK_FALSE(StageCuts(two_generations(2, {8, 15}, 2)).best(pipeline(1)));
  CHECK_FALSE(StageCuts(two_generations(2, {8, 15}, 2)).best(pipeline(16)));
}

TEST_CASE("stage cut: the search finds the best layout of two generations", "[search][property]") {
  const Scenario scenario = two_generations(1, {8, 15}, 2.5);
  SearchSpace space;
  space.tp = {1, 2};
  space.pp = {1, 2, 4};
  space.vpp = {1, 2};
  space.micro_batch_size = {1, 2};
  const SearchResult all = search(scenario, space, {.exhaustive = true});
  REQUIRE(all.counts.simulated > 8);
  for (const Evaluation& found : all.simulated) {
    INFO(describe(found.layout, 16));
    CHECK(seconds(found.bound.step_time) <= found.step_time_s);
    if (found.layout.pp > 1) CHECK(seconds(found.bound.step_time) > 0.3 * found.step_time_s);
  }
  CHECK(search(scenario, space, {.best = 1}).best.front() == all.best.front());
  // The new GPUs' replicas wait for the old ones without a pipeline; with one they have more layers.
  CHECK(all.best.front().layout.pp > 1);
}

TEST_CASE("stage cut: each stage must fit into the memory of its own GPUs", "[oracle][search]") {
  Scenario scenario = two_generations(2, {8, 15}, 2);
  const Layout layout = pipeline(2);
  const Evaluation roomy = evaluate(scenario, layout, {}, 0);
  REQUIRE(roomy.fits);
  const Forecast found = forecast(with_layout(scenario, layout)).value().forecast;
  const Bytes second = found.memory[1].total();
  REQUIRE(second < found.memory[0].total());
  Profile& old = scenario.perturbation.gpus.front().profile;
  old.memory = second;
  CHECK(evaluate(scenario, layout, {}, 0).fits);
  CHECK(forecast(with_layout(scenario, layout)).value().forecast.fits);
  old.memory.count -= 1;
  CHECK_FALSE(evaluate(scenario, layout, {}, 0).fits);
  const Forecast full = forecast(with_layout(scenario, layout)).value().forecast;
  CHECK_FALSE(full.fits);
  CHECK(full.tightest_pp_rank == 1);
  CHECK(full.memory_capacity == old.memory);
}

TEST_CASE("stage cut: GPUs of several kinds have no price", "[search]") {
  Scenario scenario = two_generations(2, {8, 15}, 2);
  scenario.profile.name = "h100";
  scenario.perturbation.gpus.front().profile.name = "a100";
  CHECK(gpus_text(scenario) == "a100 + h100");
  scenario.perturbation.gpus.front().profile.name = "h100";
  CHECK(gpus_text(scenario) == "h100");
}

TEST_CASE("stage cut: the memory of a layout is that of the rank with the least room, beside its own GPU", "[search]") {
  Scenario scenario = two_generations(2, {8, 15}, 1);
  const Evaluation alike = evaluate(scenario, pipeline(2), {}, 0);
  CHECK(alike.memory_capacity == scenario.profile.memory);
  scenario.perturbation.gpus.front().profile.memory = Bytes{scenario.profile.memory.count / 2};
  const Evaluation other = evaluate(scenario, pipeline(2), {}, 0);
  CHECK(other.fits);
  CHECK(other.memory_capacity == Bytes{scenario.profile.memory.count / 2});
  const Forecast whole = forecast(with_layout(scenario, pipeline(2))).value().forecast;
  CHECK(other.memory == whole.memory[static_cast<std::size_t>(whole.tightest_pp_rank)].total());
}
