/// \file
/// The pictures of the decision page, as SVG that follows a page's light or dark colours.
#pragma once

#include <string>

#include "sim/report/plan_report.hpp"

namespace tracecast {

/// Every candidate with a price as a point: days against money, P10 to P90 of both as lines, those that no other beats in both
/// joined. Empty without days or prices.
std::string trade_off_svg(const CapacityPlan& plan);

/// The best candidate of every size of each machine: days against GPUs, P10 to P90 as an area. Empty unless a machine has
/// several sizes.
std::string sizes_svg(const CapacityPlan& plan);

/// The money of the best candidate of each machine (at most six) by its lines. Empty without money.
std::string money_svg(const CapacityPlan& plan);

}  // namespace tracecast
