/// \file
/// Shares as numbers of percent, for columns whose head says the unit; percent() of sim/report/text.hpp writes the unit.
#pragma once

#include <string>

#include <fmt/format.h>

namespace tracecast::accuracy {

/// 0.1234 as "12.3".
inline std::string percent_number(double share) { return fmt::format("{:.1f}", 100 * share); }
/// 0.1234 as "+12.3".
inline std::string signed_percent_number(double share) { return fmt::format("{:+.1f}", 100 * share); }

}  // namespace tracecast::accuracy
