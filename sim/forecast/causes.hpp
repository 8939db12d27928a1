/// \file
/// What determines the step time: the critical path by cause, and the step time without each cause.
#pragma once

#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// One cause per class of work with any time, largest saving first.
///
/// The critical path is followed backwards from the last end through the cause of each start (Span::cause). It has no
/// gaps, so its parts sum to the step time. `step_without_s` is simulated with zero time for that work; for the
/// pipeline bubble it is the step of the busiest rank without its bubble. Both are of the run's timeline, times the
/// forecast's step over the timeline's where the forecast is a mean of several steps.
/// `engine`: as it was simulated.   Requires a timeline with spans, and the bandwidth of the forecast.
std::vector<Cause> find_causes(const ForecastRun& run, EngineOptions engine);

}  // namespace tracecast
