/// \file
/// A step of which only the factors of slow ranks have changed. Which ranks do the same depends on which are slow, not on how
/// slow: graph, classes and loads stay.
#pragma once

#include "sim/forecast/forecast.hpp"
#include "sim/graph/perturbation.hpp"

namespace tracecast {

/// True if the same ranks are slower than others in both, and nothing but the factors differs. False for ranks with random
/// speeds.
bool slow_alike(const Perturbation& a, const Perturbation& b);

/// As forecast() with the default options, from the graph of `alike`.
/// Requires a forecast of the same scenario but for perturbations that are slow_alike(), without parameter averaging and packed documents
Result<ForecastRun> forecast_like(const Scenario& scenario, const ForecastRun& alike);

}  // namespace tracecast
