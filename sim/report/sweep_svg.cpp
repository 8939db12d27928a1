// The pictures of sweep_report.hpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>

#include <fmt/format.h>

#include "sim/base/markup.hpp"
#include "sim/report/svg.hpp"
#include "sim/report/sweep_report.hpp"

namespace tracecast {
namespace {

constexpr double kLeft = 150;
constexpr double kCharacter = 7;  ///< width of a mean one
constexpr double kTop = 84;
constexpr double kCellWidth = 92;
constexpr double kCellHeight = 44;
constexpr double kPlotHeight = 280;

constexpr SvgStyle kStyle{
    .light = "--grid:#d9dee3;--a:#2a6fb0;--b:#b4590f",
    .dark = "--grid:#333c45;--a:#77aadd;--b:#e8a15c",
    .rules =
        "line{stroke:var(--grid)}polyline{stroke-width:2;fill:none}"
        ".a{stroke:var(--a)}.b{stroke:var(--b)}circle.a{fill:var(--a)}circle.b{fill:var(--b)}.fa{fill:var(--a)}"
        ".fb{fill:var(--b)}.none{fill:none;stroke:var(--grid);stroke-dasharray:3 3}.out{fill:url(#out)}"
        ".best{fill:none;stroke:var(--text);stroke-width:2}.band{opacity:.18}.whisker{stroke:var(--text);stroke-width:"
        "1.5}"
        "line.a{stroke:var(--a)}line.b{stroke:var(--b)}.hollow{fill:var(--page);stroke-width:2}",
    .definitions =
        "<defs><pattern id=\"out\" width=\"9\" height=\"9\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"1.5\" height=\"9\" fill=\"var(--page)\" "
        "opacity=\".7\"/></pattern></defs>\n"};

/// Light to dark blue; 0 to 1.
std::string shade(double share) {
  constexpr std::array kLight{225.0, 236.0, 247.0};
  constexpr std::array kDark{20.0, 76.0, 140.0};
  const auto mixed = [&](std::size_t i) {
    return static_cast<int>(std::lround(kLight[i] + (kDark[i] - kLight[i]) * std::clamp(share, 0.0, 1.0)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mixed(0), mixed(1), mixed(2));
}

/// Tokens/s per GPU of the valid points.
struct RateRange {
  double least = 1e300;
  double most = 0;
  double best = 0;  ///< of those that fit

  /// 0 (the slowest) to 1.
  double share(double rate) const { return most > least ? (rate - least) / (most - least) : 1; }
};

RateRange range_of(const std::vector<GridPoint>& points) {
  RateRange range;
  for (const GridPoint& p : points) {
    if (!p.error.empty()) continue;
    range.least = std::min(range.least, p.tokens_per_s_per_gpu);
    range.most = std::max(range.most, p.tokens_per_s_per_gpu);
    if (p.fits) range.best = std::max(range.best, p.tokens_per_s_per_gpu);
  }
  return range;
}

/// A point of a heat map, its cell's upper left corner at (x, y).
void draw_cell(SvgCanvas& picture, double x, double y, const GridPoint& p, const RateRange& range) {
  const auto box = [&](const std::string& style, const std::string& tip) {
    picture.rect(x + 1, y + 1, kCellWidth - 2, kCellHeight - 2, style, tip);
  };
  if (!p.error.empty()) {
    box("class=\"none\"", p.error);
    picture.text(x + kCellWidth / 2, y + kCellHeight / 2 + 4, "-", "soft mid");
    return;
  }
  const double share = range.share(p.tokens_per_s_per_gpu);
  const std::string tip =
      fmt::format("step {} s, MFU {}, {:.1f} GiB", number(p.step_time_s), percent(p.mfu), p.memory_gib);
  box(fmt::format("style=\"fill:{}\"", shade(share)), tip);
  if (!p.fits) box("class=\"out\"", tip + ", does not fit");
  if (!p.fits)  // otherwise the stripes would cross the number
    picture.rect(x + kCellWidth / 2 - 26, y + kCellHeight / 2 - 9, 52, 18,
                 fmt::format("style=\"fill:{};pointer-events:none\"", shade(share)));
  if (p.fits && p.tokens_per_s_per_gpu == range.best) box("class=\"best\"", tip + ", the best that fits");
  picture.add(
      svg_text(x + kCellWidth / 2, y + kCellHeight / 2 + 4,
               fmt::format("class=\"mid\" style=\"fill:{};pointer-events:none\"", share > 0.45 ? "#ffffff" : "#1b1f24"),
               number(p.tokens_per_s_per_gpu)));
}

std::string heat_map(const Sweep& sweep) {
  const SweepAxis& rows = sweep.axes[0];
  const SweepAxis& columns = sweep.axes[1];
  const RateRange range = range_of(sweep.points);
  std::size_t longest = rows.key.size();
  for (const std::string& value : rows.values) longest = std::max(longest, value.size());
  const double left = std::max(kLeft, 28 + kCharacter * static_cast<double>(longest));
  SvgCanvas picture;
  picture.text(16, 28, sweep.scenario + ": tokens/s per GPU", "title");
  const double width = left + kCellWidth * static_cast<double>(columns.values.size()) + 20;
  picture.text(left, kTop - 28, columns.key, "soft");
  picture.text(left - 12, kTop - 8, rows.key, "soft end");
  for (std::size_t c = 0; c < columns.values.size(); ++c)
    picture.text(left + kCellWidth * (static_cast<double>(c) + 0.5), kTop - 8, columns.values[c], "mid");
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const GridPoint& p = sweep.points[i];
    const std::size_t row = i / columns.values.size();
    const std::size_t column = i % columns.values.size();
    const double x = left + kCellWidth * static_cast<double>(column);
    const double y = kTop + kCellHeight * static_cast<double>(row);
    if (column == 0) picture.text(left - 12, y + kCellHeight / 2 + 4, p.values[0], "end");
    draw_cell(picture, x, y, p, range);
  }
  const double bottom = kTop + kCellHeight * static_cast<double>(rows.values.size());
  picture.text(16, bottom + 26, "framed: the best that fits; striped: does not fit into memory; -: no valid layout",
               "soft");
  return picture.document(std::max(width, 560.0), bottom + 44, sweep.scenario + ": " + rows.key + " x " + columns.key,
                          kStyle);
}

/// A curve over numbers, bars over names; both with the 90 % interval.
class Curves {
 public:
  Curves(const Sweep& sweep, SvgCanvas& picture)
      : picture_(&picture),
        columns_(sweep.axes[0].values),
        numbers_(std::ranges::all_of(sweep.axes[0].values, is_quantity)) {
    spacing_ = std::max(60.0, 560.0 / static_cast<double>(columns_.size()));
    for (const std::string& name : columns_)
      spacing_ = std::max(spacing_, 16 + kCharacter * static_cast<double>(name.size()));
    for (const auto* points : {&sweep.points, &sweep.weak})
      for (const GridPoint& p : *points)
        if (p.error.empty()) most_ = std::max(most_, rate(p, p.p5_s));
    step_ = round_step(most_);
    most_ = step_ * std::ceil(most_ / step_);
  }
  double width() const { return kLeft + spacing_ * static_cast<double>(columns_.size()) + 30; }

  void axes() {
    for (double value = 0; value <= most_ * 1.001; value += step_) {
      picture_->line(kLeft, y_of(value), width() - 30, y_of(value), "");
      picture_->text(kLeft - 8, y_of(value) + 4, fmt::format("{:g}", value), "soft end");
    }
    picture_->text(16, kTop - 12, "tokens/s per GPU", "soft");
    for (std::size_t i = 0; i < columns_.size(); ++i)
      picture_->text(x_of(i), kTop + kPlotHeight + 20, columns_[i], "mid");
  }

  /// The rate of the first point, which perfect scaling would keep.
  void ideal(const std::vector<GridPoint>& points, const char* style) {
    const auto first = std::ranges::find_if(points, [](const GridPoint& p) { return p.error.empty(); });
    if (first == points.end()) return;
    const double y = y_of(first->tokens_per_s_per_gpu);
    picture_->add(fmt::format(
        "<line x1=\"{:.6g}\" y1=\"{:.6g}\" x2=\"{:.6g}\" y2=\"{:.6g}\" class=\"{}\" "
        "stroke-dasharray=\"6 4\"><title>ideal: {} tokens/s per GPU as at {}</title></line>",
        kLeft, y, width() - 30, y, style, number(first->tokens_per_s_per_gpu), markup_text(first->values[0])));
  }

  void draw(const std::vector<GridPoint>& points, const char* style) {
    std::vector<std::size_t> drawn;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (points[i].error.empty())
        drawn.push_back(i);
      else
        picture_->text(x_of(i), kTop + kPlotHeight - 6, "-", "soft mid");
    }
    numbers_ ? curve(points, drawn, style) : bars(points, drawn, style);
  }

 private:
  static double rate(const GridPoint& p, double step_time_s) {
    return p.tokens_per_s_per_gpu * p.step_time_s / step_time_s;
  }

  static std::string tip(const GridPoint& p) {
    return fmt::format("{}: step {} s ({} to {}), {} tokens/s, MFU {}{}", p.values[0], number(p.step_time_s),
                       number(p.p5_s), number(p.p95_s), number(p.tokens_per_s), percent(p.mfu),
                       p.fits ? "" : ", does not fit");
  }

  void curve(const std::vector<GridPoint>& points, const std::vector<std::size_t>& drawn, const char* style) {
    SvgPoints line, band, lower;
    for (const std::size_t i : drawn) {
      const GridPoint& p = points[i];
      line.emplace_back(x_of(i), y_of(p.tokens_per_s_per_gpu));
      band.emplace_back(x_of(i), y_of(rate(p, p.p5_s)));
      lower.emplace_back(x_of(i), y_of(rate(p, p.p95_s)));
    }
    band.insert(band.end(), lower.rbegin(), lower.rend());
    const std::string attributes = fmt::format("class=\"{}\"", style);
    picture_->polygon(band, fmt::format("class=\"f{} band\"", style));
    picture_->polyline(line, attributes);
    for (const std::size_t i : drawn)
      picture_->circle(x_of(i), y_of(points[i].tokens_per_s_per_gpu), 4,
                       attributes + (points[i].fits ? "" : " style=\"fill:var(--page)\""), tip(points[i]));
  }

  void bars(const std::vector<GridPoint>& points, const std::vector<std::size_t>& drawn, const char* style) {
    const double wide = std::min(56.0, spacing_ * 0.6);
    for (const std::size_t i : drawn) {
      const GridPoint& p = points[i];
      const double top = y_of(p.tokens_per_s_per_gpu);
      picture_->rect(x_of(i) - wide / 2, top, wide, kTop + kPlotHeight - top,
                     fmt::format("class=\"{}{}\"", p.fits ? "f" : "hollow ", style), tip(p));
      picture_->line(x_of(i), y_of(rate(p, p.p5_s)), x_of(i), y_of(rate(p, p.p95_s)), "whisker");
    }
  }

  double x_of(std::size_t i) const { return kLeft + spacing_ * (static_cast<double>(i) + 0.5); }
  double y_of(double value) const { return kTop + kPlotHeight * (1 - value / most_); }

  SvgCanvas* picture_;
  const std::vector<std::string>& columns_;
  bool numbers_;
  double spacing_ = 0;
  double most_ = 1e-9;
  double step_ = 1;
};

std::string curves(const Sweep& sweep) {
  SvgCanvas picture;
  Curves plot(sweep, picture);
  picture.text(16, 28, sweep.scenario + ": tokens/s per GPU", "title");
  plot.axes();
  const bool scaling = !sweep.weak.empty();
  if (scaling) {
    plot.ideal(sweep.points, "a");
    plot.ideal(sweep.weak, "b");
  }
  plot.draw(sweep.points, "a");
  if (scaling) {
    plot.draw(sweep.weak, "b");
    picture.text(kLeft, kTop - 30, "strong scaling: constant global batch", "fa");
    picture.text(kLeft + 270, kTop - 30, "weak scaling: it grows with the GPUs", "fb");
  }
  const double bottom = kTop + kPlotHeight;
  picture.text(kLeft, bottom + 44, scaling ? "GPUs (cluster.world_size)" : sweep.axes[0].key, "");
  picture.text(kLeft, bottom + 64,
               fmt::format("{}90 % interval; hollow: does not fit into memory; -: no valid layout",
                           scaling ? "dashed: ideal; band: " : "band or whisker: "),
               "soft");
  return picture.document(std::max(plot.width(), 680.0), bottom + 84, sweep.scenario + ": " + sweep.axes[0].key,
                          kStyle);
}

}  // namespace

std::string sweep_svg(const Sweep& sweep) {
  TRACECAST_ASSERT(sweep.axes.size() == 1 || sweep.axes.size() == 2, "a picture has one or two axes");
  return sweep.axes.size() == 1 ? curves(sweep) : heat_map(sweep);
}

}  // namespace tracecast
