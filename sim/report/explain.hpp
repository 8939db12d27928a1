/// \file
/// The report of `--explain`: the critical path by cause, and how much shorter the step would be without each cause.
#pragma once

#include <string>

#include "sim/forecast/forecast.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Rows sorted by saved time, largest first; one line if there are no causes. Requires forecast.causes.
std::string explain_page(const Forecast& forecast, const TextStyle& style);

}  // namespace tracecast
