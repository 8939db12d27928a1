/// \file
/// What `--explain` prints: the critical path by cause, and how much shorter the step would be without each.
#pragma once

#include <string>

#include "sim/forecast/forecast.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Rows by what would be saved, the largest first. Requires forecast.causes; says so in one line when there are none.
std::string explain_page(const Forecast& forecast, const TextStyle& style);

}  // namespace tracecast
