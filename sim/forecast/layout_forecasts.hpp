/// \file
/// Forecasts of many layouts of one job on one machine, as a search makes them. What neighbouring layouts have in common is
/// found once.
#pragma once

#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/stage_loads.hpp"

namespace tracecast {

/// The part of a GPU's memory that a layout may take. `headroom`: the share that stays free
inline Bytes usable_memory(Bytes memory, double headroom) {
  return {static_cast<std::int64_t>(static_cast<double>(memory.count) * (1 - headroom))};
}

/// What a search ranks layouts by.
struct LayoutForecast {
  std::vector<MemoryByKind> memory{};  ///< [pipeline rank]
  Bytes peak{};                        ///< of the rank with the least room
  Bytes capacity{};                    ///< the memory of its GPU
  Bytes host_used{};                   ///< by the GPUs of the fullest host
  bool fits_gpus = false;              ///< into the memory of the GPUs, with the headroom
  bool fits = false;                   ///< and into that of the hosts
  bool given_up = false;               ///< it takes longer than `longest`: all else but the memory is not known
  Forecast step{};  ///< of a layout that fits: times and throughput, without memory, bandwidth and band
};

/// Thread-safe.
class LayoutForecasts {
 public:
  /// The numbers of forecast() with the default options. A layout that does not fit is not simulated. `longest`: the simulation of
  /// a step that takes longer may end early; 0: it does not
  /// Requires the same cluster and profile in all calls. Errors: those of forecast()
  Result<LayoutForecast> forecast(const Scenario& scenario, double headroom, Duration longest);

 private:
  KnownLoads known_;
};

}  // namespace tracecast
