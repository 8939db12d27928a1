#include "sim/report/decision_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/report/svg.hpp"
#include "sim/report/text.hpp"

namespace tracecast {
namespace {

constexpr double kWidth = 820;
constexpr double kLeft = 70;
constexpr double kRight = 30;

/// Colours that stay apart for the colour-blind (Paul Tol's bright scheme), on light and on dark pages.
constexpr std::array kClasses{"c0", "c1", "c2", "c3", "c4", "c5"};
constexpr SvgStyle kStyle{
    .light = "--grid:#d9dee3;--c0:#2a6fb0;--c1:#b4590f;--c2:#1d7a4c;--c3:#a3317d;--c4:#6b6f1d;--c5:#5c5c66",
    .dark = "--grid:#333c45;--c0:#77aadd;--c1:#e8a15c;--c2:#6fcf97;--c3:#f08acb;--c4:#cfcf5c;--c5:#a5a6b0",
    .rules =
        "line{stroke:var(--grid)}polyline{stroke-width:2;fill:none}polygon{opacity:.2}"
        "line.c0{stroke:var(--c0)}line.c1{stroke:var(--c1)}line.c2{stroke:var(--c2)}line.c3{stroke:var(--c3)}"
        "line.c4{stroke:var(--c4)}line.c5{stroke:var(--c5)}polyline.c0{stroke:var(--c0)}polyline.c1{stroke:var(--c1)}"
        "polyline.c2{stroke:var(--c2)}polyline.c3{stroke:var(--c3)}polyline.c4{stroke:var(--c4)}"
        "polyline.c5{stroke:var(--c5)}polyline.front{stroke:var(--soft);stroke-dasharray:5 4;stroke-width:1.5}"
        ".c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}.c4{fill:var(--c4)}.c5{fill:var(--"
        "c5)}"
        "polyline[class]{fill:none}"};  // as specific as the fills above

/// Class of each machine (topology and variant), in the order of the candidates.
std::map<std::string, std::string> classes_of(const CapacityPlan& plan) {
  std::map<std::string, std::string> classes;
  for (const Candidate& each : plan.candidates) {
    const std::string name = machine_text(choice_of(plan, each));
    if (!classes.contains(name)) classes[name] = kClasses[std::min(classes.size(), kClasses.size() - 1)];
  }
  return classes;
}

/// A linear scale from values, which begin at 0, to pixels.
struct Scale {
  double high = 1;
  double from = 0;
  double to = 1;
  double operator()(double value) const { return from + value / high * (to - from); }
};

/// "0", "2.5", "1,024".
std::string mark_text(double value) {
  return std::abs(value - std::round(value)) < 1e-9 ? number(value, 1) : fmt::format("{:.3g}", value);
}

/// Marks with lines over the whole plot.
void draw_axes(SvgCanvas& picture, const Scale& x, const Scale& y, const std::string& x_name,
               const std::string& y_name) {
  const double step_y = round_step(y.high);
  for (int i = 0; i * step_y <= y.high; ++i) {
    picture.line(x.from, y(i * step_y), x.to, y(i * step_y), "");
    picture.text(x.from - 8, y(i * step_y) + 4, mark_text(i * step_y), "soft end");
  }
  const double step_x = round_step(x.high);
  for (double value = 0; value <= x.high; value += step_x)
    picture.text(x(value), y.from + 18, mark_text(value), "soft mid");
  picture.text((x.from + x.to) / 2, y.from + 38, x_name, "mid");
  picture.text(x.from - 8, y.to - 12, y_name, "end");
}

/// Names and the attributes of their colours.
using Legend = std::vector<std::pair<std::string, std::string>>;

/// On one or more lines from x, y on. Returns the y below it.
double draw_legend(SvgCanvas& picture, const Legend& legend, double left, double y) {
  double x = left;
  for (const auto& [name, attributes] : legend) {
    const double width = 30 + 7.2 * static_cast<double>(name.size());
    if (x + width > kWidth - kRight && x > left) {
      x = left;
      y += 20;
    }
    picture.rect(x, y - 10, 12, 12, attributes);
    picture.text(x + 18, y, name, "");
    x += width;
  }
  return y + 16;
}

/// A legend of machines above a plot from 0 to the largest values.
struct Plot {
  SvgCanvas picture;
  std::map<std::string, std::string> classes;  ///< by machine
  Scale x;
  Scale y;

  Plot(const CapacityPlan& plan, double most_x, double most_y, const std::string& x_name, const std::string& y_name)
      : classes(classes_of(plan)) {
    Legend legend;
    for (const auto& [name, colour] : classes) legend.emplace_back(name, fmt::format("class=\"{}\"", colour));
    const double top = draw_legend(picture, legend, kLeft, 24) + 22;
    x = {most_x * 1.05, kLeft, kWidth - kRight};
    y = {most_y * 1.05, top + 300, top};
    draw_axes(picture, x, y, x_name, y_name);
  }
  std::string document(const std::string& title) const { return picture.document(kWidth, y.from + 50, title, kStyle); }
};

void draw_point(SvgCanvas& picture, double x, double y, const std::string& colour, const std::string& tip) {
  picture.circle(x, y, 5, fmt::format("class=\"{}\"", colour), tip);
}

bool has_days_and_money(const Candidate& candidate) { return candidate.days > 0 && candidate.cost_usd.has_value(); }

/// Days against money.
class TradeOffPlot {
 public:
  /// `unit`: of the axis of money, 1 or a million USD.
  TradeOffPlot(const CapacityPlan& plan, double unit, double most_usd, double most_days)
      : plan_(plan), unit_(unit), plot_(plan, most_usd / unit, most_days, unit > 1 ? "million USD" : "USD", "days") {}

  /// The line through the candidates that no other one beats in both.
  void draw_front() {
    SvgPoints front;
    for (const int index : plan_.pareto) {
      const Candidate& each = plan_.candidates[static_cast<std::size_t>(index)];
      if (has_days_and_money(each)) front.emplace_back(x_of(each), plot_.y(each.days));
    }
    std::ranges::sort(front);
    const bool of_this_plane = plan_.trade_offs == std::vector{Objective::time, Objective::cost};
    if (of_this_plane && front.size() > 1) plot_.picture.polyline(front, "class=\"front\"");
  }

  void draw_candidate(std::size_t index) {
    const Candidate& each = plan_.candidates[index];
    const MachineChoice& machine = choice_of(plan_, each);
    const std::string& colour = plot_.classes.at(machine_text(machine));
    const double x = x_of(each);
    const double y = plot_.y(each.days);
    if (const auto& days = each.days_quantiles)
      plot_.picture.line(x, plot_.y(days->p10), x, plot_.y(days->p90), colour);
    if (const auto& usd = each.cost_quantiles_usd)
      plot_.picture.line(plot_.x(usd->p10 / unit_), y, plot_.x(usd->p90 / unit_), y, colour);
    draw_point(plot_.picture, x, y, colour,
               fmt::format("{}: {} x {}, {} days, {}", index + 1, number(machine.gpus, 1), machine_text(machine),
                           number(each.days, 3), number(each.cost_usd->typical / unit_, 3)));
    // A number that another one would cover is left out; the table has all.
    const auto covers = [&](const std::pair<double, double>& other) {
      return std::abs(other.first - x) < 20 && std::abs(other.second - y) < 13;
    };
    if (std::ranges::any_of(labels_, covers)) return;
    labels_.emplace_back(x, y);
    plot_.picture.text(x + 8, y - 7, std::to_string(index + 1), "");
  }

  std::string document() { return plot_.document("days against money"); }

 private:
  double x_of(const Candidate& candidate) const { return plot_.x(candidate.cost_usd->typical / unit_); }

  const CapacityPlan& plan_;
  double unit_;
  Plot plot_;
  SvgPoints labels_;
};

}  // namespace

std::string trade_off_svg(const CapacityPlan& plan) {
  std::vector<std::size_t> shown;
  double unit = 1;
  double most_usd = 0;
  double most_days = 0;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const Candidate& each = plan.candidates[i];
    if (!has_days_and_money(each)) continue;
    shown.push_back(i);
    if (each.cost_usd->typical >= 1e6) unit = 1e6;
    most_usd = std::max({most_usd, each.cost_usd->typical, each.cost_quantiles_usd ? each.cost_quantiles_usd->p90 : 0});
    most_days = std::max({most_days, each.days, each.days_quantiles ? each.days_quantiles->p90 : 0});
  }
  if (shown.empty()) return "";
  TradeOffPlot plot(plan, unit, most_usd, most_days);
  plot.draw_front();
  for (const std::size_t i : shown) plot.draw_candidate(i);
  return plot.document();
}

std::string sizes_svg(const CapacityPlan& plan) {
  std::map<std::string, std::map<int, const Candidate*>> best;  // by machine and GPUs
  for (const Candidate& each : plan.candidates) {
    if (each.days <= 0) continue;
    const MachineChoice& machine = choice_of(plan, each);
    const Candidate*& known = best[machine_text(machine)][machine.gpus];
    if (known == nullptr || each.days < known->days) known = &each;
  }
  double most_x = 0;
  double most_y = 0;
  bool several = false;
  for (const auto& [name, sizes] : best) {
    several = several || sizes.size() > 1;
    for (const auto& [gpus, each] : sizes) {
      most_x = std::max(most_x, static_cast<double>(gpus));
      most_y = std::max({most_y, each->days, each->days_quantiles ? each->days_quantiles->p90 : 0});
    }
  }
  if (!several) return "";
  Plot plot(plan, most_x, most_y, "GPUs", "days");
  const Scale& x = plot.x;
  const Scale& y = plot.y;
  SvgCanvas& picture = plot.picture;
  if (plan.target.days > 0 && plan.target.days < y.high) {
    picture.line(x.from, y(plan.target.days), x.to, y(plan.target.days), "c5");
    picture.text(x.to, y(plan.target.days) - 6, given_days(plan.target.days), "end");
  }
  for (const auto& [name, sizes] : best) {
    SvgPoints middle, area, back;
    for (const auto& [gpus, each] : sizes) {
      middle.emplace_back(x(gpus), y(each->days_quantiles ? each->days_quantiles->p50 : each->days));
      if (!each->days_quantiles) continue;
      area.emplace_back(x(gpus), y(each->days_quantiles->p10));
      back.emplace_back(x(gpus), y(each->days_quantiles->p90));
    }
    area.insert(area.end(), back.rbegin(), back.rend());
    const std::string& colour = plot.classes.at(name);
    const std::string attributes = fmt::format("class=\"{}\"", colour);
    if (back.size() > 1) picture.polygon(area, attributes);
    picture.polyline(middle, attributes);
    for (const auto& [px, py] : middle) draw_point(picture, px, py, colour, name);
  }
  return plot.document("days against GPUs");
}

std::string money_svg(const CapacityPlan& plan) {
  std::vector<const Candidate*> rows;
  std::set<std::string> known;
  std::vector<std::string> parts;  // in the order of their first appearance
  double most = 0;
  for (const Candidate& each : plan.candidates) {
    const MachineChoice& machine = choice_of(plan, each);
    if (each.money.empty() || rows.size() == 6) continue;
    if (!known.insert(fmt::format("{} {}", machine.gpus, machine_text(machine))).second) continue;
    rows.push_back(&each);
    most = std::max(most, each.cost_usd->typical);
    for (const MoneyLine& line : each.money)
      if (std::ranges::find(parts, line.name) == parts.end()) parts.push_back(line.name);
  }
  if (rows.empty()) return "";
  constexpr std::array kShades{1.0, 0.75, 0.55, 0.4, 0.28, 0.9, 0.65, 0.5, 0.35};
  const auto style_of = [&](std::size_t part) {
    return fmt::format("class=\"{}\" style=\"opacity:{}\"", kClasses[part % kClasses.size()],
                       kShades[part / kClasses.size()]);
  };
  SvgCanvas picture;
  Legend legend;
  for (std::size_t i = 0; i < parts.size(); ++i) legend.emplace_back(parts[i], style_of(i));
  double y = draw_legend(picture, legend, 10, 24) + 2;
  const double unit = most >= 1e6 ? 1e6 : 1;
  for (const Candidate* each : rows) {
    const MachineChoice& machine = choice_of(plan, *each);
    picture.text(10, y + 12,
                 fmt::format("{} x {}: {} {}USD", number(machine.gpus, 1), machine_text(machine),
                             number(each->cost_usd->typical / unit, 3), unit > 1 ? "million " : ""),
                 "");
    double left = 10;
    for (const MoneyLine& line : each->money) {
      const auto part = static_cast<std::size_t>(std::ranges::find(parts, line.name) - parts.begin());
      const double width = line.usd / most * (kWidth - 20);
      picture.rect(left, y + 18, width, 20, style_of(part),
                   fmt::format("{}: {} USD, {}", line.name, number(line.usd, 3),
                               percent(line.usd / each->cost_usd->typical, 0)));
      left += width;
    }
    y += 52;
  }
  return picture.document(kWidth, y + 6, "money by its parts", kStyle);
}

}  // namespace tracecast
