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
