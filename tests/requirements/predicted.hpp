/// \file
/// Forecasts of shipped scenarios, and what the requirements ask of them.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "sim/report/terminal.hpp"
#include "tests/support/forecast_run.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast::test {

inline Forecast predicted(const std::string& scenario, const std::vector<std::string>& overrides = {}) {
  return run(shipped_scenario(scenario, overrides)).forecast;
}

/// Exposed communication of all traffic, in seconds.
inline double all_exposed(const Forecast& forecast) {
  return std::accumulate(forecast.exposed_s.begin(), forecast.exposed_s.end(), 0.0);
}

/// The page of a run as one line.
inline std::string page_of(const Scenario& scenario, const ForecastRun& run) {
  std::string text;
  for (const char c : terminal_page(scenario, run.plan, run.forecast, {})) {
    if (c != '\n' && c != ' ')
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  return text;
}

}  // namespace tracecast::test
