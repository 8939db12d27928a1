/// \file
/// What a forecast rests on, a sentence each.
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Where the numbers come from: provenance, fits, precision, conventions, notes of the scenario's reader.
std::vector<std::string> sources_of_numbers(const Scenario& scenario, const Forecast& forecast, const TextStyle& style);

/// The same after the forecast's own notes.
std::vector<std::string> assumptions(const Scenario& scenario, const Forecast& forecast);

}  // namespace tracecast
