/// \file
/// What each control of the what-if page can be set to, for a given scenario.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/io/scenario.hpp"

namespace tracecast::cli {

/// {"tp": [[1, null], [2, "why not"], …], …}: for each control its values, each with the reason why no layout has it, or null.
/// Whether the layout fits into memory does not matter.
nlohmann::ordered_json possible_values(const Scenario& scenario);

}  // namespace tracecast::cli
