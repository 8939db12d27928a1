#include "sim/report/goodput_svg.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "sim/report/svg.hpp"

namespace tracecast {
namespace {

constexpr double kRowSeconds = kSecondsPerDay;  ///< a row of the picture is a day
constexpr SvgStyle kGoodputStyle{.light = "--grid:#d9dee3",
                                 .dark = "--grid:#333c45",
                                 .rules = "line{stroke:var(--grid)}.mark{stroke:var(--text);stroke-width:2}"};

SvgCanvas titled(const std::string& title) {
  SvgCanvas out;
  out.text(10, 22, title, "title");
  return out;
}

std::string filled(std::string_view colour) { return fmt::format("style=\"fill:{}\"", colour); }
std::string filled(TimeCategory category) { return filled(style_of(category).fill); }

/// Pixels of a label, a little more than needed.
double width_of(std::string_view text) { return 7 * static_cast<double>(text.size()); }

}  // namespace

std::string waterfall_svg(const GoodputForecast& r) {
  constexpr double kLeft = 150, kWidth = 480, kRow = 22;
  const std::string title = fmt::format("{}: goodput {}", r.scenario, percent(r.goodput.goodput.mean, 2));
  SvgCanvas out = titled(title);
  double y = 36;
  double before = 0;
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const auto what = static_cast<TimeCategory>(i);
    const double share = r.goodput.share[i];
    if (share <= 0) continue;
    out.text(kLeft - 8, y + 14, to_string(what), "end");
    out.rect(kLeft + before * kWidth, y, share * kWidth, kRow - 5, filled(what), percent(share, 2));
    out.text(kLeft + kWidth + 10, y + 14, percent(share, 2), "");
    before += share;
    y += kRow;
  }
  return out.document(kLeft + kWidth + 90, y + 12, title, kGoodputStyle);
}

std::string timeline_svg(const GoodputForecast& r) {
  constexpr double kLeft = 60, kWidth = 720, kRow = 8;
  const std::string title = fmt::format("{}: one history, a row per day", r.scenario);
  SvgCanvas out = titled(title);
  const auto place = [&](const JobSpan& span, double begin, double end) {
    const double day = std::floor(begin / kRowSeconds);
    out.rect(kLeft + (begin / kRowSeconds - day) * kWidth, 34 + day * kRow, (end - begin) / kRowSeconds * kWidth,
             kRow - 1, filled(span.category), span.cause.empty() ? "" : span.cause + ": " + to_string(span.category));
  };
  for (const JobSpan& span : r.sample.spans) {
    double begin = seconds(span.begin);
    const double end = seconds(span.end);
    while (begin < end) {
      const double midnight = (std::floor(begin / kRowSeconds) + 1) * kRowSeconds;
      place(span, begin, std::min(end, midnight));
      begin = midnight;
    }
  }
  const double days = std::ceil(seconds(r.sample.wall) / kRowSeconds);
  for (int d = 0; d < static_cast<int>(days); d += 7)
    out.text(kLeft - 6, 34 + d * kRow + kRow, fmt::format("day {}", d + 1), "end");
  const double bottom = 34 + days * kRow;
  for (const int hour : {0, 6, 12, 18, 24})
    out.text(kLeft + hour / 24.0 * kWidth, bottom + 14, fmt::format("{} h", hour), "soft mid");
  double x = kLeft;
  int rows = 0;
  const double y = bottom + 36;
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const auto what = static_cast<TimeCategory>(i);
    if (std::ranges::find(r.sample.spans, what, &JobSpan::category) == r.sample.spans.end()) continue;
    const std::string name =
        what == TimeCategory::productive ? "running, with checkpoints and work lost later" : to_string(what);
    if (x + 14 + width_of(name) > kLeft + kWidth) {
      x = kLeft;
      rows += 1;
    }
    out.rect(x, y - 9 + 18 * rows, 10, 10, filled(what));
    out.text(x + 14, y + 18 * rows, name, "");
    x += 14 + width_of(name) + 14;
  }
  return out.document(kLeft + kWidth + 20, y + 18 * rows + 14, title, kGoodputStyle);
}

std::string distribution_svg(const GoodputForecast& r) {
  constexpr double kLeft = 40, kWidth = 560, kHeight = 180;
  constexpr int kBins = 40;
  const auto [low, high] = std::minmax_element(r.goodput.goodputs.begin(), r.goodput.goodputs.end());
  const double width = std::max(*high - *low, 1e-9);
  std::vector<int> bins(kBins);
  for (const double g : r.goodput.goodputs)
    ++bins[static_cast<std::size_t>(std::min(kBins - 1, static_cast<int>((g - *low) / width * kBins)))];
  const double most = *std::max_element(bins.begin(), bins.end());
  const std::string title =
      fmt::format("{}: number of histories by goodput, {} in all", r.scenario, r.goodput.histories);
  SvgCanvas out = titled(title);
  for (int b = 0; b < kBins; ++b) {
    const double h = kHeight * bins[static_cast<std::size_t>(b)] / most;
    out.rect(kLeft + b * kWidth / kBins, 40 + kHeight - h, kWidth / kBins - 1, h, filled(TimeCategory::productive),
             fmt::format("{} histories", bins[static_cast<std::size_t>(b)]));
  }
  const double mean = r.goodput.goodput.mean;
  const double at = kLeft + kWidth * std::clamp((mean - *low) / width, 0.0, 1.0);
  out.line(at, 36, at, 40 + kHeight, "mark");
  out.text(kLeft, 58 + kHeight, percent(*low, 2), "");
  out.text(kLeft + kWidth, 58 + kHeight, percent(*high, 2), "end");
  out.text(kLeft + kWidth / 2, 76 + kHeight, fmt::format("goodput of a history; line: mean {}", percent(mean, 2)),
           "soft mid");
  out.text(kLeft - 8, 50, fmt::format("{:.0f}", most), "soft end");
  out.text(kLeft - 8, 40 + kHeight, "0", "soft end");
  return out.document(kLeft + kWidth + 40, kHeight + 90, title, kGoodputStyle);
}

std::string sweep_svg(const std::string& key, const std::vector<SweepPoint>& points) {
  constexpr double kLeft = 70, kWidth = 560, kHeight = 220, kTop = 40;
  double low = 1, high = 0;
  for (const SweepPoint& p : points) {
    low = std::min(low, p.report.goodput.goodput.low);
    high = std::max(high, p.report.goodput.goodput.high);
  }
  low = std::max(0.0, low - 0.01);
  high = std::min(1.0, high + 0.01);
  const auto y_of = [&](double g) { return kTop + kHeight * (high - g) / std::max(high - low, 1e-9); };
  const std::string title = "goodput over " + key;
  SvgCanvas out = titled(title);
  SvgPoints curve;
  const double step = round_step(std::max(high - low, 1e-6));
  for (double g = std::ceil(low / step) * step; g <= high + 1e-9; g += step) {
    out.line(kLeft, y_of(g), kLeft + kWidth, y_of(g), "");
    out.text(kLeft - 8, y_of(g) + 4, percent(g, step < 0.001 ? 2 : 1), "soft end");
  }
  const std::string colour = style_of(TimeCategory::productive).fill;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Estimate& g = points[i].report.goodput.goodput;
    const double x = kLeft + kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(points.size());
    curve.emplace_back(x, y_of(g.mean));
    out.rect(x - 1, y_of(g.high), 2, y_of(g.low) - y_of(g.high), filled("var(--soft)"));
    out.circle(x, y_of(g.mean), 4, filled(colour), percent(g.mean, 2));
    out.text(x, kTop + kHeight + 18, points[i].value, "mid");
  }
  if (std::ranges::all_of(points, is_quantity, &SweepPoint::value))
    out.polyline(curve, fmt::format("fill=\"none\" stroke=\"{}\"", colour));
  out.text(kLeft + kWidth / 2, kTop + kHeight + 38, key + "; bars: 95 % interval of the mean", "soft mid");
  return out.document(kLeft + kWidth + 20, kTop + kHeight + 52, title, kGoodputStyle);
}

}  // namespace tracecast
