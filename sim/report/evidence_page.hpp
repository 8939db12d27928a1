/// \file
/// The measured runs that are closest to a scenario, with the errors of their forecasts: `predict --evidence`.
#pragma once

#include <string>

#include "sim/io/scenario.hpp"

namespace tracecast {

/// Of a forecast: "8.7 % too fast".
std::string error_text(double error);

/// "BLOOM 176B …, 384 a100 (bloom-66ffc002): forecast 8.7 % too fast, fitted without this source": the closest run, and what was
/// never measured.
std::string closest_run_text(const Scenario& scenario);

/// The closest runs with their errors, a line each.
std::string evidence_page(const Scenario& scenario);
/// One JSON object.
std::string evidence_json(const Scenario& scenario);

}  // namespace tracecast
