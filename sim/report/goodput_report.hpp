/// \file
/// Text and JSON of a goodput forecast.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "sim/forecast/goodput_forecast.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// How a use of time looks.
struct TimeStyle {
  char letter;             ///< in the picture of a day
  std::string_view words;  ///< beside the letter
  Colour colour;           ///< in a terminal
  /// In pictures and on pages (tools/page/shared.js): Paul Tol's muted scheme, which readers with colour-vision deficiencies can tell
  /// apart. Source: personal.sron.nl/~pault, "muted" qualitative scheme.
  const char* fill;
};
inline constexpr TimeStyle kTimeStyles[] = {{'.', "runs", Colour::green, "#44aa99"},
                                            {'s', "slow", Colour::yellow, "#ddcc77"},
                                            {'c', "saves a checkpoint", Colour::cyan, "#88ccee"},
                                            {'x', "lost work", Colour::red, "#cc6677"},
                                            {'d', "detection", Colour::blue, "#332288"},
                                            {'D', "diagnosis", Colour::blue, "#aa4499"},
                                            {'w', "waiting", Colour::magenta, "#999933"},
                                            {'r', "restart", Colour::blue, "#882255"},
                                            {'l', "load", Colour::blue, "#117733"},
                                            {'p', "planned", Colour::grey, "#dddddd"}};
static_assert(std::size(kTimeStyles) == kTimeCategories);
constexpr const TimeStyle& style_of(TimeCategory category) { return kTimeStyles[static_cast<std::size_t>(category)]; }

/// Plain text for a terminal: one screen, or with `history` all kinds of failure and one history day by day.
std::string goodput_page(const GoodputForecast& report, const TextStyle& style, bool history = false);
/// Where the days of the tokens are not known: why, and the options with which they are.
std::string unknown_goal(const GoodputForecast& report);
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
