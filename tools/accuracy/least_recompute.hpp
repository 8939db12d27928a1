/// \file
/// What a row leaves out and its memory tells: recomputation, whether the optimizer is divided, and the number of virtual stages.
///
/// First, the run is forecast as reported; where nothing is said of recomputation, without it or with the framework's default.
/// Second, if it does not fit and nothing is said of the optimizer, that is divided (ZeRO-1), which takes no time; gradients and
/// parameters, too, where even recomputing everything does not make it fit (and everything is recomputed then). Third, where
/// recomputation is not reported, the least with which the run fits is taken: the attention scores, some layers of every virtual
/// stage, everything. Fourth, where everything has to be recomputed only because each virtual stage is guessed to hold one layer,
/// fewer of them are tried, and the fastest of all is taken.
///
/// A run that does not fit even so recomputes everything. So a larger model is never forecast with less recomputation.
#pragma once

#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/accuracy/rows/row_scenario.hpp"

namespace tracecast::accuracy {

/// The forecast of `row`, whose scenario and assumptions then have what was chosen. Only a row with `guess_recompute` or
/// `highest_zero_stage` is changed.
/// Errors: those of forecast()
Result<ForecastRun> with_least_recompute(RowScenario& row, const ForecastOptions& how);

}  // namespace tracecast::accuracy
