/// \file
/// What a forecast rests on, a sentence each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// "64 x H100 SXM 80 GB"; with other GPUs in some ranks "32 x A100 SXM 80 GB + 32 x H100 SXM 80 GB".
std::string gpu_counts(const Scenario& scenario, std::string_view times);

/// Where the numbers come from: provenance, fits, precision, conventions, notes of the scenario's reader.
std::vector<std::string> sources_of_numbers(const Scenario& scenario, const Forecast& forecast, const TextStyle& style);

/// The same after the forecast's own notes.
std::vector<std::string> assumptions(const Scenario& scenario, const Forecast& forecast);

}  // namespace tracecast
