#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "sim/report/compare_report.hpp"
#include "tests/graph/small_scenario.hpp"
#include "tests/io/temporary_folder.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

StepRecord record(int pp, StepOrigin origin = StepOrigin::simulated) {
  Scenario scenario = test::small_scenario(1, pp, 1);
  scenario.profile.host = {};  // no gaps between operators
  const ForecastRun run = forecast(scenario, {.record_spans = true}).value();
  return record_of(run.graph, run.timeline, "small", origin);
}

/// The same step with all times of operators of `kind` and what follows them drawn out.
StepRecord stretched(StepRecord record, std::int64_t factor) {
  record.origin = StepOrigin::executed;
  record.step_time = record.step_time * factor;
  for (StepSpan& span : record.spans)
    span = {span.rank,           span.work,        span.microbatch, span.stream, span.arrival * factor,
            span.start * factor, span.end * factor};
  for (StepRank& rank : record.ranks) {
    rank.time.compute = rank.time.compute * factor;
    rank.time.optimizer = rank.time.optimizer * factor;
    rank.time.bubble = rank.time.bubble * factor;
    rank.time.host = rank.time.host * factor;
    for (Duration& each : rank.time.exposed) each = each * factor;
  }
  return record;
}

std::string message(const Result<StepRecord>& result) {
  REQUIRE_FALSE(result);
  Error error = result.error();
  for (Diagnostic& each : error.diagnostics) each.file = std::filesystem::path(each.file).filename().string();
  return to_string(error);
}

}  // namespace

TEST_CASE("step record: a written record is read back unchanged", "[report][property]") {
  StepRecord written = record(2);
  written.repeats = {20, 0.25, 0.27, 0.03};
  const TemporaryFolder folder;
  REQUIRE(write_file(folder.path() / "timeline.json", to_json(written)));
  const Result<StepRecord> read = read_step_record(folder.path());  // the folder stands for its file
  if (!read) FAIL(to_string(read.error()));
  CHECK(*read == written);
}

TEST_CASE("step record: each error has its message", "[report][error]") {
  const TemporaryFolder folder;
  const auto complaint = [&folder](const std::string& from, const std::string& to) {
    std::string text = to_json(record(1));
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    REQUIRE(write_file(folder.path() / "t.json", text));
    return message(read_step_record(folder.path() / "t.json"));
  };
  CHECK(complaint("timeline 1", "timeline 2") ==
        "t.json:2: format = \"tracecast timeline 2\": is not 'tracecast timeline 1'");
  CHECK(complaint("\"origin\": \"simulated\"", "\"origin\": \"dreamt\"") ==
        "t.json:4: origin = \"dreamt\": is unknown (allowed: simulated executed)");
  CHECK(complaint("\n[0,", "\n[7,").find("is not [rank, work, micro-batch, stream, arrival, start, end]") !=
        std::string::npos);
  CHECK(complaint("\"step_time_ps\"", "\"step_time\"").find("step_time_ps: is missing") != std::string::npos);
}

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

TEST_CASE("compare: records of different runs are an error", "[report][error]") {
  StepRecord other = record(2);
  CHECK(to_string(compare(record(1), other, 0.1).error()) ==
        "these are records of different layouts: 1 and 2 pipeline ranks");
  other.scenario = "another";
  CHECK(to_string(compare(record(2), other, 0.1).error()) ==
        "these are records of different scenarios: small and another");
}

TEST_CASE("compare: the picture has two rows per rank on one time axis", "[report]") {
  const StepRecord forecast = record(2);
  const StepRecord actual = stretched(forecast, 2);
  const Comparison c = compare(forecast, actual, 0.1).value();
  const std::string page = comparison_page(c, forecast, actual, {});
  const auto row = [&page](const std::string& begin) {
    const std::size_t at = page.find(begin);
    REQUIRE(at != std::string::npos);
    return page.substr(at + begin.size(), page.find('\n', at) - at - begin.size());
  };
  const std::string first = row("rank 0    forecast ");
  const std::string second = row("            actual   ");
  INFO(page);
  CHECK(first.size() == second.size());
  CHECK(first.find('F') == 0);
  // The forecast is over at half of the axis, which the actual step fills.
  CHECK(first.substr(first.size() / 2 + 1).find_first_not_of('.') == std::string::npos);
  CHECK(second.back() == 'O');
  const std::string svg = comparison_svg(c, forecast, actual);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("rank 1  forecast") != std::string::npos);
  CHECK(svg.ends_with("</svg>\n"));
}
