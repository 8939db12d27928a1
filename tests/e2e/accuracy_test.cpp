// Published step times, forecast from the shipped scenario and profile files without any setting per run.
#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

double relative_error(const std::string& name) {
  const Scenario scenario = shipped_scenario(name);
  return forecast(scenario).value().forecast.step_time_s / scenario.measured.value().step_time_s - 1;
}

/// Llama 3 405B with 131,072 tokens: its context-parallel gathers share NICs with pipeline messages and gradients in the forecast;
/// how much Meta's hid is not published.
/// Nemotron: of Mamba-2's kernels only forward times on an H100 were found (sim/cost/scan.hpp).
double allowed_error(const std::string& name) {
  if (name.starts_with("nemotron-")) return 0.235;
  if (name == "korthikanti-1t-selective") return 0.11;  // its source is the one that is most too slow on A100
  return name == "llama3-405b-131k-context" ? 0.12 : 0.10;
}

}  // namespace

TEST_CASE("published runs: every scenario of one within 10 %, except those named above", "[published][e2e]") {
  int runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "scenarios/published")) {
    const std::string name = entry.path().stem().string();
    if (!shipped_scenario(name).measured) continue;
    INFO(name);
    CHECK(std::abs(relative_error(name)) < allowed_error(name));
    ++runs;
  }
  CHECK(runs >= 29);
}
