#include "sim/forecast/compare.hpp"

#include <catch2/catch.hpp>

#include "tests/forecast/step_records.hpp"

using namespace tracecast;
using namespace tracecast::literals;
using test::record;
using test::stretched;

TEST_CASE("compare: a step has no differences from itself", "[report]") {
  const StepRecord same = record(2);
  const Comparison c = compare(same, same, 0).value();
  CHECK(c.error == 0);
  CHECK(c.within());
  for (const Difference& d : c.largest) {
    CHECK(d.share == 0);
    CHECK(d.cause.empty());
  }
  // Phases are all of the mean rank's time.
  double sum = 0;
  for (const Difference& d : c.phases) sum += d.actual_s;
  CHECK(sum == Approx(c.actual_s).epsilon(1e-9));
}

TEST_CASE("compare: every part of a step that took twice as long is forecast at half", "[report][oracle]") {
  const StepRecord forecast = record(2);
  const StepRecord actual = stretched(forecast, 2);
  const Comparison c = compare(forecast, actual, 0.1).value();
  CHECK(c.error == Approx(-0.5));
  CHECK_FALSE(c.within());
  CHECK(compare(forecast, actual, 0.5)->within());
  double missing = 0;
  for (const Difference& d : c.phases) missing += d.share;
  CHECK(missing == Approx(-0.5));
  // The second stage waits for the first micro-batch, the first for its gradient.
  REQUIRE(c.waits.size() == 2);
  for (const Difference& wait : c.waits) {
    CHECK(wait.actual_s > 0);
    CHECK(wait.actual_s == Approx(2 * wait.forecast_s));
  }
  CHECK(c.waits[1].name == "rank 1 waiting");
  REQUIRE(c.largest.size() > 2);
  for (std::size_t i = 1; i < c.largest.size(); ++i)
    CHECK(std::abs(c.largest[i].share) <= std::abs(c.largest[i - 1].share));
  CHECK_FALSE(c.largest.front().cause.empty());
}

TEST_CASE("compare: the duration of an executed step is the lower quartile of its repeats", "[report]") {
  const StepRecord forecast = record(1);
  StepRecord actual = stretched(forecast, 1);
  actual.repeats = {9, seconds(forecast.step_time) * 1.25, seconds(forecast.step_time) * 1.3, 0.02};
  const Comparison c = compare(forecast, actual, 0.1).value();
  CHECK(c.error == Approx(-0.2));
  CHECK(c.spread == 0.02);
}

TEST_CASE("compare: one slower kind of operator comes first, with its cause", "[report]") {
  const StepRecord forecast = record(1);
  StepRecord actual = stretched(forecast, 1);
  for (StepSpan& span : actual.spans)
    if (actual.works[static_cast<std::size_t>(span.work)].kind == "norm") span.end += 10_ms;
  const Comparison c = compare(forecast, actual, 0.1).value();
  CHECK(c.largest.front().name.starts_with("norm"));
  CHECK(c.largest.front().share < 0);
  CHECK(c.largest.front().cause.find("interpolated") != std::string::npos);
}

TEST_CASE("compare: a rank of an unfolded step is compared with the class that it is in", "[report][folding]") {
  Scenario scenario = test::small_scenario(1, 2, 4);
  scenario.perturbation.slow_ranks.push_back({{0, 0}, 1.3});
  const auto step = [&](bool unfold) {
    const ForecastRun run = forecast(scenario, {.unfold = unfold, .record_spans = true}).value();
    return record_of(run.graph, run.timeline, "small", StepOrigin::simulated);
  };
  const StepRecord folded = step(false);
  const StepRecord all = step(true);
  REQUIRE(folded.ranks.size() < all.ranks.size());
  for (const Comparison& c : {compare(folded, all, 0).value(), compare(all, folded, 0).value()}) {
    REQUIRE(c.ranks.size() == all.ranks.size());
    for (const Difference& d : c.ranks) {
      INFO(d.name);
      CHECK(d.share == 0);
      CHECK(d.cause.empty());
    }
    for (const Difference& d : c.waits) CHECK(d.share == 0);
  }
}

TEST_CASE("compare: recordings of some ranks are compared with the forecast of these", "[report]") {
  const StepRecord forecast = record(4);
  const std::size_t only = GENERATE(0U, 3U);
  StepRecord recorded = stretched(forecast, 1);
  recorded.ranks = {forecast.ranks[only]};
  std::erase_if(recorded.spans, [only](const StepSpan& span) { return span.rank != static_cast<std::int32_t>(only); });
  for (StepSpan& span : recorded.spans) span.rank = 0;
  const Comparison c = compare(with_recorded_ranks(forecast, recorded), recorded, 0).value();
  CHECK(c.ranks.size() == 1);
  CHECK(c.waits.size() == 1);
  CHECK(c.works.size() > 3);
  for (const Difference& d : c.largest) CHECK(d.share == 0);
  for (const Difference& d : c.phases) CHECK(d.share == 0);
  // Of as many ranks nothing is left out, also where a class stands for several.
  CHECK(with_recorded_ranks(forecast, forecast) == forecast);
  StepRecord folded = forecast;
  folded.ranks.front().multiplicity = 8;
  const StepRecord two = with_recorded_ranks(folded, forecast);
  REQUIRE(two.ranks.size() == 4);
  CHECK(two.ranks.front().multiplicity == 1);
}

TEST_CASE("compare: where a rank may be in several classes the largest counts, and no cause is named", "[report]") {
  StepRecord all = record(1);
  all.ranks[0].time.bubble = {all.step_time.picoseconds / 4};
  all.ranks.assign(6, all.ranks[0]);
  for (std::int32_t number = 0; number < 6; ++number) all.ranks[static_cast<std::size_t>(number)].number = number;
  StepRecord folded = all;
  folded.ranks.resize(2);
  folded.ranks[0].multiplicity = 2;
  folded.ranks[1].multiplicity = 4;
  folded.ranks[1].time.bubble = {folded.step_time.picoseconds / 2};
  CHECK(rank_for(folded, all.ranks[0]).number == 0);
  CHECK(rank_for(folded, all.ranks[1]).number == 1);
  CHECK(rank_for(folded, all.ranks[5]).number == 1);
  const Comparison c = compare(folded, all, 1).value();
  CHECK(c.ranks[1].cause.starts_with("no rank's operators explain it"));
  CHECK(c.ranks[5].cause == "not known: a folded timeline does not say which class it is in (predict --unfold)");
}

TEST_CASE("compare: a rank waits for others that are slow, is slow itself, or another order makes it wait",
          "[report]") {
  const StepRecord forecast = record(4);
  REQUIRE(forecast.ranks.size() == 4);
  const auto causes = [&](std::int64_t bubble_of_1, std::int64_t compute_of_2, std::int64_t bubble_of_2) {
    StepRecord actual = forecast;
    const std::int64_t tenth = actual.step_time.picoseconds / 10;
    actual.ranks[1].time.bubble.picoseconds += bubble_of_1 * tenth;
    actual.ranks[2].time.compute.picoseconds += compute_of_2 * tenth;
    actual.ranks[2].time.bubble.picoseconds += bubble_of_2 * tenth;
    const Comparison c = compare(forecast, actual, 1).value();
    return std::pair(c.ranks[1].cause, c.ranks[2].cause);
  };
  CHECK(causes(1, 1, -1) ==
        std::pair<std::string, std::string>("the ranks it waits for take more time than forecast, see their operators",
                                            "the rank itself computes longer than forecast, see its operators"));
  CHECK(causes(-1, -1, 1) ==
        std::pair<std::string, std::string>("the ranks it waits for take less time than forecast, see their operators",
                                            "the rank itself computes less than forecast, see its operators"));
  const std::string order = "no rank's operators explain it: another order of actions, or other transfers";
  CHECK(causes(1, 0, -1) == std::pair(order, order));
}

TEST_CASE("compare: records of different runs are an error", "[report][error]") {
  StepRecord other = record(2);
  CHECK(to_string(compare(record(1), other, 0.1).error()) ==
        "these are records of different layouts: 1 and 2 pipeline ranks");
  other.scenario = "another";
  CHECK(to_string(compare(record(2), other, 0.1).error()) ==
        "these are records of different scenarios: small and another");
}

TEST_CASE("compare: another number of operations is the first cause", "[report]") {
  Scenario scenario = test::small_scenario(1, 1, 1);
  const auto step = [&](std::int64_t batch) {
    scenario.training.global_batch_size = batch;
    const ForecastRun run = forecast(scenario, {.record_spans = true}).value();
    return record_of(run.graph, run.timeline, "small", StepOrigin::simulated);
  };
  const std::int64_t batch = scenario.training.global_batch_size;
  const Comparison c = compare(step(batch), step(2 * batch), 0.1).value();
  REQUIRE(c.largest.front().share < -0.05);
  CHECK(c.largest.front().cause == "the actual step runs it 2 times as often: another batch, micro-batch or model?");
}
