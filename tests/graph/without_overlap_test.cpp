#include "sim/graph/without_overlap.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;

TEST_CASE("without overlap: a rank never does two things at a time", "[graph][property]") {
  const auto [tp, pp, dp] =
      GENERATE(std::tuple(1, 1, 1), std::tuple(2, 1, 2), std::tuple(1, 4, 2), std::tuple(2, 2, 1));
  Scenario scenario = test::small_scenario_on_cpus(tp, pp, dp);
  scenario.parallel.zero_stage = dp > 1 ? GENERATE(0, 1, 3) : 0;
  const ForecastRun run = forecast(scenario, {.record_spans = true}).value();
  for (std::size_t rank = 0; rank < run.graph.ranks.size(); ++rank) {
    std::vector<Span> spans;
    std::copy_if(run.timeline.spans.begin(), run.timeline.spans.end(), std::back_inserter(spans),
                 [&](const Span& span) { return span.rank == static_cast<int>(rank) && span.end > span.start; });
    std::ranges::sort(spans, {}, [](const Span& span) { return span.start; });
    for (std::size_t i = 1; i < spans.size(); ++i) REQUIRE(spans[i].start >= spans[i - 1].end);
    // Then the step is the sum of its parts: nothing of them is hidden.
    Duration busy;
    for (const Span& span : spans) busy += span.end - span.start;
    INFO("tp " << tp << " pp " << pp << " dp " << dp << " rank " << rank << ": busy " << busy.picoseconds << ", bubble "
               << run.timeline.ranks[rank].bubble.picoseconds << ", host " << run.timeline.ranks[rank].host.picoseconds
               << ", step " << run.timeline.step_time.picoseconds);
    CHECK(busy + run.timeline.ranks[rank].bubble == run.timeline.step_time);
  }
}

TEST_CASE("without overlap: 1F1B does not deadlock and has the bubble of its schedule", "[graph]") {
  const Scenario scenario = test::small_scenario_on_cpus(1, 2, 1, GENERATE("1f1b", "gpipe"));
  const ForecastRun run = forecast(scenario, {.record_spans = true}).value();
  CHECK(run.forecast.bubble_fraction > 0);
  CHECK(run.forecast.bubble_fraction < 0.2);
  for (const Message& message : run.graph.messages) CHECK(message.eager);
}

TEST_CASE("without overlap: nothing but the order is changed", "[graph]") {
  Scenario scenario = test::small_scenario_on_cpus(2, 1, 2);
  const ForecastRun serial = forecast(scenario).value();
  scenario.profile.overlap = true;
  const ForecastRun beside = forecast(scenario).value();
  CHECK(serial.timeline.step_time > beside.timeline.step_time);
  REQUIRE(serial.graph.templates.size() == beside.graph.templates.size());
  for (std::size_t i = 0; i < serial.graph.templates.size(); ++i) {
    const auto work = [](const Template& each) {
      std::vector<std::pair<OpType, std::int32_t>> list;
      for (const Op& op : each.ops)
        if (op.payload >= 0) list.emplace_back(op.type, op.payload);
      return list;
    };
    CHECK(work(serial.graph.templates[i]) == work(beside.graph.templates[i]));
  }
}
