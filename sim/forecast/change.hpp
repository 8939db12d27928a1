/// \file
/// What moved between two forecasts of one run: as its file describes it, and with values replaced (--set).
///
/// Both forecasts are undisturbed simulations, so the parts that moved sum to the change of the step time exactly, up to
/// rounding. Errors that both forecasts share, such as a wrong GEMM efficiency, cancel for the most part: the change is
/// known better than either step time, but its own interval is not estimated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/economics/economics.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// A part of the step, mean over all ranks.
struct StepPart {
  std::string name;  ///< "gemm", "exposed tensor parallel", "pipeline bubble", "optimizer", "host"
  double time_s = 0;
  bool operator==(const StepPart&) const = default;
};

/// Compute by kind of operator, exposed communication by kind of traffic, and the rest. Their sum is the step time.
std::vector<StepPart> step_parts(const Forecast& forecast);

struct MovedPart {
  std::string name;
  double before_s = 0;
  double after_s = 0;
  double by_s() const { return after_s - before_s; }
  bool operator==(const MovedPart&) const = default;
};

/// Every part of either forecast, the largest move first. Their by_s() sum to the change of the step time.
std::vector<MovedPart> moved_parts(const Forecast& before, const Forecast& after);

/// The run without its --set, beside the forecast with it.
struct Unchanged {
  Forecast forecast;
  std::optional<Measured> measured;                         ///< of the run in the file
  std::vector<std::string> settings;                        ///< what was set: "parallel.tp=4"
  std::optional<Range3> usd_per_million_tokens = {};        ///< of the run in the file; none: no price is known
  std::optional<Range3> usd_per_million_tokens_after = {};  ///< with the settings
  /// From the grid; none: no thermal design power is known, or the settings change neither the GPUs nor their power limit.
  std::optional<Range3> kwh_per_million_tokens = {};
  std::optional<Range3> kwh_per_million_tokens_after = {};
};

/// What a million tokens that are not padding take, without interruptions: `per_gpu_hour` is the rent of a GPU in US dollars, or its kilowatts.
Range3 for_million_tokens(const Range3& per_gpu_hour, const Forecast& forecast);

}  // namespace tracecast
