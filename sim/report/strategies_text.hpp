/// \file
/// The table of parallel strategies as text for a terminal, Markdown and JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/strategies.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// `base`: the job that the table is of.
std::string strategies_terminal(const std::vector<StrategyRow>& rows, const Scenario& base, const TextStyle& style);
std::string strategies_markdown(const std::vector<StrategyRow>& rows);
std::string strategies_json(const std::vector<StrategyRow>& rows);

}  // namespace tracecast
