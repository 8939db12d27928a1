/// \file
/// scenarios/runs/published-evidence.csv, which the build embeds, so that a forecast needs no files.
#pragma once

#include <string_view>

namespace tracecast {

extern const std::string_view kMeasuredRuns;

}  // namespace tracecast
