/// \file
/// The numbers of a forecast, from a simulated step: throughput, utilisation, time by cause, memory, and the 90 % band.
#pragma once

#include <span>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Fills `run.forecast`, except what needs further simulations.   Requires all other members of `run`
void summarise(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options);
/// Only times and throughput, which a search ranks layouts by.
void summarise_times(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options);

/// What one GPU offloads to its host's memory, at most.
Bytes most_on_host(std::span<const MemoryByKind> ranks);
/// A GPU's part of its host's memory; 0: not known.
Bytes share_of_host(const Cluster& cluster);
/// True if every GPU of a host can offload as much as the one that offloads most, or if the host's memory is not known.
bool fits_on_host(std::span<const MemoryByKind> ranks, const Cluster& cluster);
/// [pipeline rank] the least memory of its GPUs.
std::vector<Bytes> memory_of_gpus(const Scenario& scenario, const Plan& plan);

}  // namespace tracecast
