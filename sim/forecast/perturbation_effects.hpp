/// What each part of a scenario's `perturb` does to its step.
#pragma once

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Forecasts the scenario without each of its perturbations, and without all of them, over the network of `options`,
/// folded. Nothing to do when it has none. Errors: those of forecast().
Result<void> add_perturbation_effects(const Scenario& scenario, const ForecastOptions& options, Forecast& result);

}  // namespace tracecast
