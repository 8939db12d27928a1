/// \file
/// Forecasts of many layouts of one job on one machine, as a search makes them. What neighbouring layouts have in common is
/// found once.
#pragma once

#include "sim/forecast/forecast.hpp"
#include "sim/graph/stage_loads.hpp"

namespace tracecast {

/// Thread-safe.
class LayoutForecasts {
 public:
  /// As forecast() with the default options.   Requires the same cluster and profile in all calls
  Result<ForecastRun> forecast(const Scenario& scenario);

 private:
  KnownLoads known_;
};

}  // namespace tracecast
