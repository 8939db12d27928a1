/// \file
/// What-if grids: forecasts of one scenario for every combination of some values.
///
/// A sweep over cluster.world_size alone is a scaling study: strong, with the same global batch, and weak, with a
/// global batch proportional to the number of GPUs, starting with that of the first point.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// One key of the scenario, or of the machine with the prefix "topology.", and its values.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  bool operator==(const SweepAxis&) const = default;
};

/// "parallel.tp=1,2,4". Commas inside brackets, braces and quotes belong to a value. Errors: no key, no value, an empty
/// one.
Result<SweepAxis> parse_sweep_axis(const std::string& text);

struct GridPoint {
  std::vector<std::string> values;  ///< [axis]
  std::string error;                ///< why there is no forecast; empty: there is one
  bool fits = false;                ///< in the memory of the GPU; times are forecast in any case
  int gpus = 0;
  double step_time_s = 0;
  double p5_s = 0;  ///< the 90 % interval of the step time
  double p95_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double mfu = 0;
  double memory_gib = 0;  ///< of the tightest rank
  std::string note;       ///< of a precision that the GPU does not have (rate_text); mostly empty
};

struct Sweep {
  std::string scenario;
  std::vector<SweepAxis> axes;
  GridPoint unchanged;            ///< without the axes; with `error` if that cannot be forecast
  std::vector<GridPoint> points;  ///< the last axis fastest
  std::vector<GridPoint> weak;    ///< of a scaling study, [value]
};

/// Reads the scenario with these "key=value" overrides.
using ReadScenario = std::function<Result<Scenario>(const std::vector<std::string>& overrides)>;

inline constexpr std::size_t kMaxSweepPoints = 10'000;

/// Degrees that follow from others are derived as for --set (sim/io/scenario_file.cpp). `progress` gets the number of points
/// done and of all points.
/// Errors: a key twice; more than kMaxSweepPoints points; no point with a forecast (with the reason of the first).
Result<Sweep> run_sweep(const std::vector<SweepAxis>& axes, const ReadScenario& read, const ForecastOptions& options,
                        const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace tracecast
