#include "sim/report/compare_report.hpp"

#include <catch2/catch.hpp>

#include "tests/forecast/step_records.hpp"

using namespace tracecast;
using test::record;
using test::stretched;

TEST_CASE("compare: the page has a table of each kind of time", "[report]") {
  const StepRecord forecast = record(2);
  const StepRecord actual = stretched(forecast, 2);
  const std::string page = comparison_page(compare(forecast, actual, 0.1).value(), forecast, actual, {});
  std::size_t at = 0;
  for (const char* title : {"Phases, mean rank -", "Operators -", "Transfers, moving -", "Ranks -",
                            "Waiting in transfers for other ranks -"}) {
    INFO(title);
    at = page.find(title, at);
    REQUIRE(at != std::string::npos);
  }
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
