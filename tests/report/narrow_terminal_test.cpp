// Text for a terminal of 60 columns.
#include <sstream>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/network/topology.hpp"
#include "sim/report/explain.hpp"
#include "sim/report/terminal.hpp"
#include "sim/report/text.hpp"
#include "sim/report/topology_report.hpp"
#include "tests/report/longest_line.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {
namespace {

constexpr TextStyle kNarrow{.width = 60, .unicode = true};

void check_fits(const std::string& text) {
  const std::string longest = test::longest_line(text);
  INFO(longest);
  CHECK(columns(longest) > 40);
  CHECK(columns(longest) <= kNarrow.width);
}

TEST_CASE("narrow terminal: bottlenecks fit 60 columns", "[report][text]") {
  const Scenario scenario = shipped_scenario("p5-llama3-70b-64", {"parallel.tp=4"});
  const Forecast forecast_of = forecast(scenario, {.explain = true}).value().forecast;
  check_fits(explain_page(forecast_of, kNarrow));
  // Wide enough for the share of the critical path, which narrow tables leave out.
  CHECK(explain_page(forecast_of, {.width = 80}).find("on critical path") != std::string::npos);
}

TEST_CASE("narrow terminal: the page of a forecast that does not fit the GPU fits 60 columns", "[report][text]") {
  const Scenario scenario = shipped_scenario("llama3-405b-1024", {"parallel.tp=4"});
  const ForecastRun run = forecast(scenario).value();
  const std::string page = terminal_page(scenario, run.plan, run.forecast, kNarrow);
  check_fits(page);
  CHECK(page.find("\n  does not fit: the peak is") != std::string::npos);
}

TEST_CASE("narrow terminal: the description of a machine fits 60 columns", "[report][text][network]") {
  for (const char* name : {"llama3-405b-1024", "p5-llama3-70b-64"})
    check_fits(to_terminal(describe(Topology(shipped_scenario(name, {}).cluster)), kNarrow));
}

}  // namespace
}  // namespace tracecast
