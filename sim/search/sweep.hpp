/// What-if grids: one scenario forecast at every combination of some of its values.
///
/// A sweep over cluster.world_size alone is a scaling study: strong, with the global batch as it is, and weak, with a
/// global batch that grows with the GPUs from that of the first point.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// One key of the scenario, or with "topology." before it of the machine, and the values that it takes.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  bool operator==(const SweepAxis&) const = default;
};

/// "parallel.tp=1,2,4". Commas inside brackets, braces and quotes belong to a value. Errors: no key, no value, an empty one.
Result<SweepAxis> parse_sweep_axis(const std::string& text);

struct GridPoint {
  std::vector<std::string> values;  ///< [axis]
  std::string refused;              ///< why there is no forecast; empty: there is
  bool fits = false;                ///< into the memory of the GPU; the times are forecast anyway
  int gpus = 0;
  double step_time_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double mfu = 0;
  double memory_gib = 0;  ///< of the tightest rank
};

struct Sweep {
  std::string scenario;
  std::vector<SweepAxis> axes;
  std::vector<GridPoint> points;  ///< the last axis fastest
  std::vector<GridPoint> weak;    ///< of a scaling study, [value]
};

/// The scenario with these "key=value" in place of its own.
using ReadScenario = std::function<Result<Scenario>(const std::vector<std::string>& overrides)>;

inline constexpr std::size_t kMostSweepPoints = 10'000;

/// Where an axis sets tp to 1, sequence parallelism is off. Where the axes change how many ranks data parallelism has, parallel.dp follows from the rest whatever the scenario says.
/// `progress` is told the number of points done and of all.   Errors: a key twice; more than 10,000 points; no point that
/// can be forecast (the first one's reason).
Result<Sweep> run_sweep(const std::vector<SweepAxis>& axes, const ReadScenario& read, const ForecastOptions& options,
                        const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace tracecast
