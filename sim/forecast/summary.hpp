/// \file
/// The numbers of a forecast, from a simulated step: throughput, utilisation, time by cause, memory, and the 90 % band.
#pragma once

#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Fills `run.forecast`, except what needs further simulations.   Requires all other members of `run`
void summarise(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options);
/// Only times and throughput, which a search ranks layouts by.
void summarise_times(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options);

/// [pipeline rank] the least memory of its GPUs.
std::vector<Bytes> memory_of_gpus(const Scenario& scenario, const Plan& plan);

}  // namespace tracecast
