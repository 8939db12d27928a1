/// \file
/// The parts of `predict`'s page about the time of a step: what it consists of, and what each axis asks of its links.
#pragma once

#include <string>

#include "sim/forecast/forecast.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Columns; tables of the page leave some out on terminals with fewer.
inline constexpr int kNarrow = 72;

/// A bar for each cause, mean over all GPUs.
std::string time_section(const Forecast& forecast, const TextStyle& style);

/// A bar for each axis: the bandwidth that it needs against that of its links.
std::string bandwidth_section(const Forecast& forecast, const Cluster& cluster, const TextStyle& style);

}  // namespace tracecast
