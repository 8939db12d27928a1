/// \file
/// The effect of each part of the `perturb` of a scenario on its step.
#pragma once

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Forecasts the scenario without each of its perturbations and without all of them, folded, with the network of
/// `options`, and adds the results to `result`.
/// Errors: those of forecast().
Result<void> add_perturbation_effects(const Scenario& scenario, const ForecastOptions& options, Forecast& result);

}  // namespace tracecast
