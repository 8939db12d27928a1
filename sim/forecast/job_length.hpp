/// \file
/// How long a job takes that nothing interrupts. With failures: GoodputForecast::goal_days.
#pragma once

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Tokens that count towards training.train_tokens (counted_share) in a second of the forecast step.
double counted_tokens_per_s(const Forecast& forecast, const Training& training);

/// Days of the scenario's tokens; 0: it has none.
double days_without_interruptions(const Forecast& forecast, const Training& training);

}  // namespace tracecast
