#include "sim/report/report_page.hpp"

#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/report/page_parts.hpp"
#include "sim/report/template_runs.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using nlohmann::json;

namespace {

/// The data of a page, as its script finds them.
json data_of(const std::string& page) {
  const std::string begin = "const data = ";
  const std::size_t from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find(";\n", from) - from));
}

std::string decoded(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    held += 6;
    if (held >= 8) bytes += static_cast<char>(bits >> (held -= 8) & 255);
  }
  return bytes;
}

/// What timeline.js does, written again.
std::vector<StepSpan> spans_of_page(const json& rank) {
  const std::string bytes = decoded(rank["spans"]);
  std::size_t at = 0;
  const auto number = [&] {
    std::int64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::int64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const auto signed_number = [&] {
    const std::int64_t value = number();
    return value % 2 == 1 ? -(value + 1) / 2 : value / 2;
  };
  std::map<std::int32_t, std::int64_t> last;
  std::vector<StepSpan> spans;
  std::int64_t microbatch = 0;
  for (std::size_t i = 0; i < rank["count"]; ++i) {
    StepSpan span{.stream = static_cast<std::int32_t>(number())};
    span.work = static_cast<std::int32_t>(number());
    span.microbatch = static_cast<std::int32_t>(microbatch += signed_number());
    const std::int64_t start = last[span.stream] + signed_number();
    span.arrival = {(start - number()) * 1000};
    span.start = {start * 1000};
    last[span.stream] = start + number();
    span.end = {last[span.stream] * 1000};
    spans.push_back(span);
  }
  CHECK(at == bytes.size());
  return spans;
}

ForecastRun run_of(const Scenario& scenario) {
  Result<ForecastRun> run = forecast(scenario, {.record_spans = true});
  REQUIRE(run);
  return std::move(*run);
}

StepSpan span_of(std::int32_t rank) { return {.rank = rank}; }

Duration whole_nanoseconds(Duration t) { return {t.picoseconds / 1000 * 1000}; }

}  // namespace

TEST_CASE("page: base64 as RFC 4648 has it", "[report][page]") {
  CHECK(base64("") == "");
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("page: every span of the step is in it, to the nanosecond", "[report][page]") {
  const Scenario scenario = test::small_scenario(2, 2, 2);
  const ForecastRun run = run_of(scenario);
  const StepRecord record = record_of(run.graph, run.timeline, scenario.name, StepOrigin::simulated);
  const json data = data_of(predict_html(scenario, run, {"tracecast predict", "test"}));
  const json& timeline = data["timelines"][0];
  REQUIRE(timeline["ranks"].size() == run.graph.ranks.size());
  std::size_t at = 0;
  for (const json& rank : timeline["ranks"])
    for (const StepSpan& drawn : spans_of_page(rank)) {
      REQUIRE(at < record.spans.size());
      const StepSpan& span = record.spans[at++];
      CHECK(drawn.start == whole_nanoseconds(span.start));
      CHECK(drawn.end == whole_nanoseconds(span.end));
      CHECK(drawn.arrival == std::min(whole_nanoseconds(span.arrival), drawn.start));
      CHECK(drawn.microbatch == span.microbatch);
      const StepWork& work = record.works.at(static_cast<std::size_t>(span.work));
      const auto use = 2 * static_cast<std::size_t>(drawn.work);  // a pair: index of the work, layer
      REQUIRE(use + 1 < timeline["uses"].size());
      const auto index = timeline["uses"][use].get<std::size_t>();
      REQUIRE(index < timeline["works"].size());
      CHECK(timeline["works"][index]["name"] == work.name);
      CHECK(timeline["works"][index]["details"] == work.details);
      CHECK(timeline["uses"][use + 1] == work.layer);
    }
  CHECK(at == record.spans.size());
}

TEST_CASE("page: durations times their calls are the compute time of the mean rank", "[report][page]") {
  const Scenario scenario = test::small_scenario(2, 2, 2);
  const ForecastRun run = run_of(scenario);
  double of_page = 0;
  for (const json& each : json::parse(durations_json(run.graph))) {
    CHECK(each["calls"].get<double>() > 0);
    if (run.forecast.compute_s.count(each["kind"]) != 0)
      of_page += each["calls"].get<double>() * each["duration_s"].get<double>();
  }
  double of_forecast = 0;
  for (const auto& [kind, s] : run.forecast.compute_s)
    if (kind != "contention") of_forecast += s;
  CHECK(of_page == Approx(of_forecast).epsilon(0.002));  // operators of a template are rounded together
}

TEST_CASE("page: memory begins and ends with what stays, and its peak has the activations", "[report][page]") {
  const Scenario scenario = test::small_scenario(2, 2, 2);
  const ForecastRun run = run_of(scenario);
  for (std::size_t r = 0; r < run.graph.ranks.size(); ++r) {
    const auto index = static_cast<std::int32_t>(r);
    const auto points =
        memory_over_time(run.graph, template_runs(run.graph, spans_of(run.timeline, index)), Bytes{1000});
    CHECK(points.front().in_use == Bytes{1000});
    CHECK(points.back().in_use == Bytes{1000});
    Bytes peak{};
    for (const MemoryPoint& point : points) peak = std::max(peak, point.in_use);
    CHECK(peak > Bytes{1000});
  }
}

TEST_CASE("page: of a step too large to draw, every pipeline rank is drawn once first", "[report][page]") {
  StepRecord record;
  for (int r = 0; r < 6; ++r)
    record.ranks.push_back({.number = r, .multiplicity = 1, .pp_rank = r / 3, .first_layers = {}, .time = {}});
  const std::size_t each = kMaxSpans / 3;
  for (std::int32_t r = 0; r < 6; ++r) record.spans.insert(record.spans.end(), each, span_of(r));
  CHECK(ranks_to_draw(record) == std::vector<std::size_t>{0, 1, 3});
  record.spans.assign(2 * kMaxSpans, StepSpan{});
  CHECK(ranks_to_draw(record) == std::vector<std::size_t>{0});
  for (StepSpan& span : record.spans) span.rank = 1;
  record.spans.front().rank = 0;
  CHECK(ranks_to_draw(record) == std::vector<std::size_t>{0, 3});
}

TEST_CASE("page: text cannot end the script", "[report][page]") {
  const std::string page = report_page("predict", "</script><b>", {"a </script>", "v"}, "\"x\":1");
  CHECK(page.find("</script><b>") == std::string::npos);
  CHECK(data_of(page)["title"] == "</script><b>");
}
