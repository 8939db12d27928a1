/// \file
/// The text that `predict` prints: the result first, then its parts and sources.
#pragma once

#include <string>

#include "sim/forecast/change.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Lines of at most style.width columns, and of at most 110: longer ones are hard to read. Requires the forecast's
/// memory. With `unchanged`, the page has what moved.
std::string terminal_page(const Scenario& scenario, const Plan& plan, const Forecast& forecast, const TextStyle& style,
                          const Unchanged* unchanged = nullptr);

}  // namespace tracecast
