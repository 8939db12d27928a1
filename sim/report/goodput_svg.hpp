/// \file
/// Pictures of a goodput forecast. Each is a standalone SVG document without scripts or embedded fonts.
#pragma once

#include <string>
#include <vector>

#include "sim/report/goodput_report.hpp"

namespace tracecast {

/// Bars: where the wall time goes, on average.
std::string waterfall_svg(const GoodputForecast& report);
/// One row per day of history 0, coloured by what the job does.
std::string timeline_svg(const GoodputForecast& report);
/// Histogram of goodput over histories.
std::string distribution_svg(const GoodputForecast& report);
/// Goodput over the values of a sweep, with intervals.
std::string sweep_svg(const std::string& key, const std::vector<SweepPoint>& points);

}  // namespace tracecast
