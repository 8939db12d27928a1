/// What each part of a scenario's `perturb` does to its step.
#pragma once

#include "sim/report/forecast.hpp"

namespace tracecast {

/// Forecasts the scenario without each of its perturbations, and without all of them. Nothing to do when it has none.
/// Errors: those of forecast().
Result<void> add_perturbation_effects(const Scenario& scenario, Forecast& result);

}  // namespace tracecast
