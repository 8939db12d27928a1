/// \file
/// Text and JSON of a goodput forecast.
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/goodput_forecast.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Plain text for a terminal: one screen, or with `history` all kinds of failure and one history day by day.
std::string goodput_page(const GoodputForecast& report, const TextStyle& style, bool history = false);
/// One JSON object, newline at the end; docs/formats/goodput.md.
std::string goodput_json(const GoodputForecast& report);

/// One point of a sweep.
struct SweepPoint {
  std::string value;
  GoodputForecast report;
};
std::string sweep_page(const std::string& key, const std::vector<SweepPoint>& points, const TextStyle& style);
std::string sweep_json(const std::string& key, const std::vector<SweepPoint>& points);

}  // namespace tracecast
