// The hand recipe: where it starts, that it only takes what is faster, that it never beats the search.
#include "sim/search/recipe.hpp"

#include <catch2/catch.hpp>

#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

SearchSpace choices() {
  SearchSpace space;
  space.tp = {1, 2, 4, 8};
  space.pp = {1, 2, 4, 8};
  space.vpp = {1};
  space.micro_batch_size = {1, 2, 4};
  space.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  space.zero_stage = {0, 1};
  return space;
}

}  // namespace

TEST_CASE("the talk's recipe: data parallelism to the limit of memory, then tp and pp, with its gap to the best",
          "[row-0-27][search][requirements]") {
  const Scenario scenario = shipped_scenario("llm-jp-13b-mdx");
  const SearchSpace space = choices();
  const RecipeTrace trace = follow_recipe(scenario, space, {});
  REQUIRE(trace.found);
  // Up to the first that fits, everything smaller did not.
  std::size_t start = 0;
  while (!trace.steps[start].taken) CHECK_FALSE(trace.steps[start++].evaluation.fits);
  CHECK(trace.steps[start].move.starts_with("tp "));
  const SearchResult best = search(scenario, space, {.best = 1});
  CHECK(trace.last.step_time_s >= best.best.front().step_time_s);
  CHECK(trace.last.step_time_s < 1.5 * best.best.front().step_time_s);
}

TEST_CASE("more PP and activation checkpointing appear as moves, with memory and time deltas",
          "[row-0-28][search][requirements]") {
  const RecipeTrace trace = follow_recipe(shipped_scenario("llm-jp-13b-mdx"), choices(), {});
  REQUIRE(trace.found);
  bool pipeline = false;
  bool recomputation = false;
  double now = 0;
  for (const RecipeStep& step : trace.steps) {
    pipeline = pipeline || step.move.starts_with("pp ");
    recomputation = recomputation || step.move.starts_with("recomputation ");
    if (step.taken && now > 0) {
      CHECK(step.evaluation.step_time_s < now);
      CHECK(step.faster_by == Approx(1 - step.evaluation.step_time_s / now));
    }
    if (step.taken) now = step.evaluation.step_time_s;
  }
  CHECK(pipeline);
  CHECK(recomputation);
  CHECK(now == trace.last.step_time_s);
}

TEST_CASE("recipe: reports that no layout fits", "[search]") {
  const RecipeTrace trace = follow_recipe(shipped_scenario("llm-jp-13b-mdx"), choices(), {.memory_headroom = 0.99});
  CHECK_FALSE(trace.found);
  CHECK_FALSE(trace.steps.empty());
}

TEST_CASE("recipe: of the moves that it looks at, it takes the fastest", "[oracle][search]") {
  const RecipeTrace trace = follow_recipe(shipped_scenario("llm-jp-13b-mdx"), choices(), {});
  REQUIRE(trace.found);
  int rounds = 0;
  for (const RecipeStep& taken : trace.steps) {
    if (!taken.taken || taken.faster_by == 0) continue;
    ++rounds;
    const double before = taken.evaluation.step_time_s / (1 - taken.faster_by);
    for (const RecipeStep& other : trace.steps)
      if (other.evaluation.fits && other.evaluation.step_time_s / (1 - other.faster_by) == Approx(before).epsilon(1e-9))
        CHECK(other.faster_by <= taken.faster_by);
  }
  CHECK(rounds >= 1);
}

TEST_CASE("the rule of thumb counts one activation of two bytes per layer", "[oracle][search]") {
  // 7 B: weights and gradients of 27.0 GB. Activations of a sequence are 2 x s x 4096 x 32 = 0.262 MB x s, in 42.9 GB.
  const auto rule = [](const char* length) { return guideline(shipped_scenario("llama2-7b-abci", {length})).rule; };
  CHECK(rule("training.seq_length=57344") == RuleOfThumb::fsdp);     // 27.0 + 15.0 = 42.0
  CHECK(rule("training.seq_length=65536") == RuleOfThumb::tp_fsdp);  // 27.0 + 17.2 = 44.2
}
