/// \file
/// The effect of each part of the `perturb` of a scenario on its step.
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// So many perturbations are undone one by one: each of these forecasts takes as long as the step's. Of more, the step is forecast with
/// each of so many of the largest alone, which leaves few classes of ranks, and with all others undone together.
inline constexpr std::size_t kMostEffects = 4;
/// Of more ranks, more than kMostEffects perturbations are only undone together: to find the classes of a million ranks takes 4 s.
inline constexpr int kMostRanksOfEffects = 262'144;

/// "rank 37 computes 1.3 times as long": each perturbation.
std::vector<std::string> perturbation_texts(const Scenario& scenario);

Scenario without_perturbations(Scenario scenario);

/// Forecasts the scenario without each of its perturbations (or with it alone) and without all of them, folded, with the network of
/// `options`, and adds the results to `result`.
/// Errors: those of forecast().
Result<void> add_perturbation_effects(const Scenario& scenario, const ForecastOptions& options, Forecast& result);

}  // namespace tracecast
