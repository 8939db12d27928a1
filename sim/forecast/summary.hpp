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

/// What the ranks of the fullest host offload to its memory together.
Bytes most_on_host(std::span<const MemoryByKind> ranks, const Plan& plan, const Cluster& cluster);
/// True also if the host's memory is not known.
inline bool fits_on_host(Bytes used, const Cluster& cluster) {
  return cluster.node.host_memory == Bytes{} || used <= cluster.node.host_memory;
}
/// The pipeline rank with the least room.
std::size_t tightest_rank(std::span<const MemoryByKind> ranks, std::span<const Bytes> capacity);
/// [pipeline rank] the least memory of its GPUs.
std::vector<Bytes> memory_of_gpus(const Scenario& scenario, const Plan& plan);

}  // namespace tracecast
