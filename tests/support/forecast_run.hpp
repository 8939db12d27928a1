/// \file
/// A forecast that a test needs to succeed.
#pragma once

#include <utility>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"

namespace tracecast::test {

/// Fails the test with the sentence of the error.
inline ForecastRun run(const Scenario& scenario, const ForecastOptions& options = {}) {
  Result<ForecastRun> result = forecast(scenario, options);
  if (!result) FAIL(to_string(result.error()));
  return std::move(*result);
}

}  // namespace tracecast::test
