/// \file
/// The numbers of a forecast, from a simulated step: throughput, utilisation, time by cause, memory, and the 90 % band.
#pragma once

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Fills `run.forecast`, except what needs further simulations.   Requires all other members of `run`
void summarise(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options);

}  // namespace tracecast
