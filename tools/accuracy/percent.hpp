/// \file
/// Shares as percentages in text.
#pragma once

#include <string>

#include <fmt/format.h>

namespace tracecast::accuracy {

/// 0.1234 as "12.3".
inline std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }
/// 0.1234 as "+12.3".
inline std::string signed_percent(double share) { return fmt::format("{:+.1f}", 100 * share); }

}  // namespace tracecast::accuracy
