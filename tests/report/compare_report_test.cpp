#include "sim/report/compare_report.hpp"

#include <catch2/catch.hpp>

#include "sim/report/report_page.hpp"
#include "tests/forecast/step_records.hpp"

using namespace tracecast;
using test::record;
using test::stretched;

TEST_CASE("compare: the page has a table of each kind of time", "[report]") {
  const StepRecord forecast = record(2);
  const StepRecord actual = stretched(forecast, 2);
  const std::string page = comparison_page(compare(forecast, actual, 0.1).value(), forecast, actual, {});
  CHECK(page.find("\n  error -50.0 %, outside the tolerance of 10 %\n") != std::string::npos);
  std::size_t at = 0;
  for (const char* title : {"Phases, mean rank -", "Operators -", "Transfers, moving -", "Ranks -",
                            "Waiting in transfers for other ranks -"}) {
    INFO(title);
    at = page.find(title, at);
    REQUIRE(at != std::string::npos);
  }
  const StepRecord alone = record(1);
  const std::string without = comparison_page(compare(alone, stretched(alone, 2), 0.1).value(), alone, alone, {});
  CHECK(without.find("Waiting in transfers") == std::string::npos);  // nothing waits
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
  const std::string first = row("rank 0     forecast ");
  const std::string second = row("             actual   ");
  INFO(page);
  CHECK(first.size() == second.size());
  CHECK(first.find('F') == 0);
  // The forecast is over at half of the axis, which the actual step fills.
  CHECK(first.substr(first.size() / 2 + 1).find_first_not_of(' ') == std::string::npos);
  CHECK(second.back() == 'O');
  const std::string svg = comparison_svg(c, forecast, actual);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("rank 1 forecast") != std::string::npos);
  CHECK(svg.ends_with("</svg>\n"));
}

TEST_CASE("compare: rows of both timelines are of the same rank", "[report]") {
  // Two classes of ranks against eight ranks: rank 4 is the second class.
  StepRecord folded, unfolded;
  for (const int r : {0, 4})
    folded.ranks.push_back({.number = r, .multiplicity = 4, .pp_rank = r / 4, .first_layers = {}, .time = {}});
  for (int r = 0; r < 8; ++r)
    unfolded.ranks.push_back({.number = r, .multiplicity = 1, .pp_rank = r / 4, .first_layers = {}, .time = {}});
  const std::vector<RankPair> pairs = rank_pairs(folded, unfolded);
  REQUIRE(pairs.size() == 2);
  CHECK(pairs[1].forecast == 1);
  CHECK(pairs[1].actual == 4);
  CHECK(rank_pairs(unfolded, folded)[1].forecast == 4);
  CHECK(rank_pairs(unfolded, unfolded, 2)[1].actual == 4);  // of every pipeline rank one first
  folded.spans = {StepSpan{}};
  folded.works = {StepWork{}};
  unfolded.works = folded.works;
  const std::string page = compare_html({}, folded, unfolded, {});
  CHECK(page.find(R"("name":"rank 1",)") == std::string::npos);
}

TEST_CASE("compare: a transfer behind computation is not drawn as a wait for it", "[report]") {
  StepRecord record;
  record.step_time = 10_ms;
  record.works = {{.phase = "forward"}, {.phase = "backward", .transfer = true}};
  record.ranks.resize(1);
  const auto span = [](std::int32_t work, Duration start, Duration end) {
    return StepSpan{
        .rank = 0, .work = work, .microbatch = 0, .stream = work, .arrival = start, .start = start, .end = end};
  };
  record.spans = {span(0, 0_ms, 4_ms), span(1, 1_ms, 6_ms)};
  CHECK(activity_letters(record, 0, 0.012, 12) == "FFFF~~....  ");
  const std::string svg = comparison_svg({}, record, record);
  CHECK(svg.find(">transfer alone<") != std::string::npos);
  CHECK(svg.find(">optimizer<") == std::string::npos);  // does not occur
}

TEST_CASE("compare: the size of the picture does not grow with the number of operations", "[report]") {
  StepRecord record;
  record.step_time = 1_s;
  record.works = {{.phase = "forward"}, {.phase = "backward"}};
  record.ranks.resize(1);
  for (std::int32_t i = 0; i < 100'000; ++i) {
    const Duration start = 10_us * i;
    record.spans.push_back({0, i % 2, 0, 0, start, start, start + 10_us});
  }
  CHECK(comparison_svg({}, record, record).size() < 500'000);
}

TEST_CASE("compare: ranks that are named are drawn", "[report]") {
  StepRecord folded, unfolded;
  folded.step_time = unfolded.step_time = 1_s;
  for (const int r : {0, 4})
    folded.ranks.push_back({.number = r, .multiplicity = 4, .pp_rank = r / 4, .first_layers = {}, .time = {}});
  for (int r = 0; r < 8; ++r)
    unfolded.ranks.push_back({.number = r, .multiplicity = 1, .pp_rank = r / 4, .first_layers = {}, .time = {}});
  Comparison c;
  c.largest = {{.group = Difference::Group::rank, .name = "rank 5 bubble", .cause = "slow", .rank = 5},
               {.group = Difference::Group::rank, .name = "rank 6 bubble", .rank = 6}};
  const std::vector<RankPair> pairs = rank_pairs(c, folded, unfolded);
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[2].forecast == 1);  // its class
  CHECK(pairs[2].actual == 5);
  CHECK(number_of(pairs[2], folded, unfolded) == 5);
  CHECK(comparison_page(c, folded, unfolded, {}).find("  rank 5     forecast ") != std::string::npos);
}
