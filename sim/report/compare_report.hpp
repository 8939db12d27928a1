/// \file
/// Text, JSON and picture of a comparison of two steps.
#pragma once

#include <string>

#include "sim/forecast/compare.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// A page for a terminal, with both timelines as rows of letters on one time axis.
std::string comparison_page(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual,
                            const TextStyle& style);
std::string comparison_json(const Comparison& comparison);
/// Both timelines on one time axis: two rows per rank, forecast and actual.
std::string comparison_svg(const Comparison& comparison, const StepRecord& forecast, const StepRecord& actual);

}  // namespace tracecast
