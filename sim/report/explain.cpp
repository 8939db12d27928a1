#include "sim/report/explain.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/units.hpp"

namespace tracecast {
namespace {

constexpr int kNameWidth = 24;
constexpr int kTimeWidth = 10;

double saved(const Forecast& forecast, const Cause& cause) { return forecast.step_time_s - cause.step_without_s; }

std::string row(const Forecast& forecast, const Cause& cause, int bar_width, const TextStyle& style) {
  const double share = cause.on_critical_path_s / forecast.step_time_s;
  const double gain = saved(forecast, cause) / forecast.step_time_s;
  return fmt::format("  {} {} {:5.1f} %  {} {:6.1f} %  {}\n", pad_right(cause.name, kNameWidth, style),
                     pad_left(to_text(from_seconds(cause.on_critical_path_s)), kTimeWidth), 100 * share,
                     pad_left(to_text(from_seconds(cause.step_without_s)), kTimeWidth), -100 * gain,
                     paint(without_trailing_blanks(bar(gain, bar_width, style)), Colour::cyan, style));
}

}  // namespace

std::string explain_page(const Forecast& forecast, const TextStyle& style) {
  std::string page = heading("What holds the step back", style);
  if (forecast.causes.empty()) return page + "  Nothing: the step takes no time.\n";
  std::vector<Cause> causes = forecast.causes;
  std::ranges::stable_sort(causes, std::greater{}, [&](const Cause& cause) { return saved(forecast, cause); });
  const std::string titles = fmt::format("  {} {} {:>7}  {} {:>8}", pad_right("", kNameWidth),
                                         pad_left("on path", kTimeWidth), "", pad_left("without", kTimeWidth), "change");
  page += paint(titles, Colour::grey, style) + "\n";
  const int bar_width = std::max(0, style.width - columns(titles) - 2);
  for (const Cause& cause : causes) page += row(forecast, cause, bar_width, style);
  return page +
         paragraph("  ",
                   "on path: time on the chain of operations that decides the step. without: the step simulated again "
                   "with that cause taking no time; savings do not add up, since the next longest chain takes over.",
                   style);
}

}  // namespace tracecast
