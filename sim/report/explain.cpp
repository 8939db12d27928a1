#include "sim/report/explain.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {
namespace {

constexpr double kNothing = 5e-4;  ///< of the step: prints as 0.0 %

double share(const Forecast& forecast, double time_s) { return time_s / forecast.step_time_s; }
double saved(const Forecast& forecast, const Cause& cause) { return 1 - share(forecast, cause.step_without_s); }

/// Causes with a visible effect, sorted by the time that removing them would save.
std::vector<Cause> sorted_causes(const Forecast& forecast) {
  std::vector<Cause> causes = forecast.causes;
  std::erase_if(causes, [&](const Cause& cause) {
    return saved(forecast, cause) < kNothing && share(forecast, cause.on_critical_path_s) < kNothing;
  });
  std::ranges::stable_sort(causes, std::greater{}, [&](const Cause& cause) { return saved(forecast, cause); });
  return causes;
}

/// "gradients (network)": of communication the links that it takes.
std::string name_of(const Cause& cause) {
  if (cause.links.empty()) return cause.name;
  std::string name = cause.name;
  for (const std::string_view word : {" communication", " point-to-point"})
    if (name.ends_with(word)) name.resize(name.size() - word.size());
  return name + " (" + cause.links + ")";
}

std::string time_cell(double time_s) { return time_s > 0 ? time_text(time_s) : "-"; }

/// "1.2 %", or a dash for nothing.
std::string percent_cell(double value) { return value < kNothing ? "-" : percent(value); }

bool is_narrow(const TextStyle& style) { return style.width < 72; }

/// Name, time on the critical path and its share (not on narrow terminals), time without it and what that saves.
TextTable table_of(const std::vector<Cause>& causes, const TextStyle& style) {
  int width = 0;
  for (const Cause& cause : causes) width = std::max(width, columns(name_of(cause)));
  return is_narrow(style) ? TextTable({-width, 9, 9, 8}, 2, 0) : TextTable({-width, 19, 11, 8}, 2, 0);
}

std::string row(const TextTable& table, const Forecast& forecast, const Cause& cause, const TextStyle& style) {
  const double gain = saved(forecast, cause);
  std::string critical = time_cell(cause.on_critical_path_s);
  if (!is_narrow(style)) critical += pad_left(percent_cell(share(forecast, cause.on_critical_path_s)), 8);
  const std::string figures = table.line(name_of(cause), critical, time_cell(cause.step_without_s), percent_cell(gain));
  const int rest = style.width - columns(figures) - 2;
  const std::string drawn = rest > 0 ? "  " + without_trailing_blanks(bar(gain, rest, style)) : "";
  return figures + paint(drawn, Colour::cyan, style) + "\n";
}

}  // namespace

std::string explain_page(const Forecast& forecast, const TextStyle& style) {
  std::string page = heading("Bottlenecks of the step", style);
  const std::vector<Cause> causes = sorted_causes(forecast);
  if (causes.empty()) return page + "  none: the step takes no time\n";
  const TextTable table = table_of(causes, style);
  page += paint(table.line("", is_narrow(style) ? "critical" : "on critical path", "without", "saves"), Colour::grey,
                style) +
          "\n";
  for (const Cause& cause : causes) page += row(table, forecast, cause, style);
  return page +
         paragraph(
             "  ",
             "On the critical path: time on the chain of operations that determines the step time. Without: the step "
             "simulated again with zero time for that cause. The savings do not add up, since another chain then "
             "becomes the longest.",
             style);
}

}  // namespace tracecast
