/// \file
/// The part of `predict`'s page about memory: whether GPUs and hosts hold the run, and a bar for each pipeline rank.
#pragma once

#include <string>

#include "sim/forecast/forecast.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Requires the forecast's memory.
std::string memory_section(const Forecast& forecast, const Plan& plan, const TextStyle& style);

}  // namespace tracecast
