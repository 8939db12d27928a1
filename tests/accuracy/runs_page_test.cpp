// docs/validation/runs.md says what the scenarios of published runs are forecast to.
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

/// The cells of the page's line of a scenario, from its forecast on; empty: it has none.
std::string line_of(const std::string& page, const std::string& scenario) {
  std::size_t at = page.find("| " + scenario + " |");
  if (at == std::string::npos) return {};
  for (int cell = 0; cell < 4; ++cell) at = page.find('|', at) + 1;
  return page.substr(at, page.find('\n', at) - at);
}

}  // namespace

TEST_CASE("the page of published runs has not drifted from what they are forecast to", "[accuracy][docs]") {
  const std::filesystem::path root = source_dir();
  const std::string page = content_of(root / "docs/validation/runs.md");
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "scenarios/published")) {
    const Result<Scenario> scenario = read_scenario(entry.path(), shipped_data());
    REQUIRE(scenario);
    if (!scenario->measured) continue;
    CAPTURE(scenario->name);
    const std::string line = line_of(page, scenario->name);
    REQUIRE_FALSE(line.empty());
    const double forecast_s = forecast(*scenario).value().forecast.step_time_s;
    const double error = 100 * (forecast_s / scenario->measured->step_time_s - 1);
    char* rest = nullptr;
    CHECK(std::strtod(line.c_str(), &rest) == Approx(forecast_s).margin(6e-4));
    CHECK(std::strtod(rest + 2, &rest) == Approx(scenario->measured->step_time_s).margin(6e-4));
    CHECK(std::strtod(rest + 2, &rest) == Approx(error).margin(0.06));
    ++runs;
  }
  CHECK(runs >= 29);
}
