/// \file
/// A forecast that a test needs to succeed, and what is read from it.
#pragma once

#include <cstddef>

#include "sim/forecast/forecast.hpp"
#include "tests/support/results.hpp"

namespace tracecast::test {

/// Fails the test with the text of the error.
inline ForecastRun run(const Scenario& scenario, const ForecastOptions& options = {}) {
  return value_of(forecast(scenario, options));
}

/// Exposed communication, in seconds.
inline double exposed(const Forecast& forecast, Traffic traffic) {
  return forecast.exposed_s[static_cast<std::size_t>(traffic)];
}
inline double exposed(const ForecastRun& run, Traffic traffic) { return exposed(run.forecast, traffic); }

}  // namespace tracecast::test
