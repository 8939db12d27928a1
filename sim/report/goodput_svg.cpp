#include "sim/report/goodput_svg.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/markup.hpp"
#include "sim/base/units.hpp"
#include "sim/report/svg.hpp"

namespace tracecast {
namespace {

constexpr double kRowSeconds = kSecondsPerDay;  ///< a row of the picture is a day

}  // namespace

const char* fill_of(TimeCategory category) {
  switch (category) {
    case TimeCategory::productive:
      return "#44aa99";
    case TimeCategory::degraded:
      return "#ddcc77";
    case TimeCategory::checkpoint:
      return "#88ccee";
    case TimeCategory::lost:
      return "#cc6677";
    case TimeCategory::detection:
      return "#332288";
    case TimeCategory::diagnosis:
      return "#aa4499";
    case TimeCategory::waiting:
      return "#999933";
    case TimeCategory::restart:
      return "#882255";
    case TimeCategory::load:
      return "#117733";
    case TimeCategory::planned:
      return "#dddddd";
  }
  return "#000000";
}

namespace {

std::string rect(double x, double y, double w, double h, const char* fill, const std::string& title = "") {
  return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" style=\"fill:{}\">{}</rect>\n",
                     x, y, std::max(w, 0.0), h, fill, title.empty() ? "" : "<title>" + markup_text(title) + "</title>");
}

std::string label(double x, double y, const std::string& text, const char* classes = "") {
  return svg_text(x, y, fmt::format("class=\"{}\"", classes), text) + "\n";
}

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1, y1, x2, y2);
}

std::string document(double width, double height, const std::string& title, const std::string& body) {
  constexpr SvgStyle style{.light = "--grid:#d9dee3",
                           .dark = "--grid:#333c45",
                           .rules = "line{stroke:var(--grid)}.mark{stroke:var(--text);stroke-width:2}"};
  SvgCanvas out;
  out.text(10, 22, title, "title");
  out.add(body);
  return out.document(width, height, title, style);
}

/// Pixels of a label, a little more than needed.
double width_of(std::string_view text) { return 7 * static_cast<double>(text.size()); }

}  // namespace

std::string waterfall_svg(const GoodputForecast& r) {
  constexpr double kLeft = 150, kWidth = 480, kRow = 22;
  std::string body;
  double y = 36;
  double before = 0;
  for (std::size_t i = 0; i < kTimeCategories; ++i) {
    const auto what = static_cast<TimeCategory>(i);
    const double share = r.goodput.share[i];
    if (share <= 0) continue;
    body += label(kLeft - 8, y + 14, to_string(what), "end");
    body += rect(kLeft + before * kWidth, y, share * kWidth, kRow - 5, fill_of(what), percent(share, 2));
    body += label(kLeft + kWidth + 10, y + 14, percent(share, 2));
    before += share;
    y += kRow;
  }
  return document(kLeft + kWidth + 90, y + 12,
                  fmt::format("{}: goodput {}", r.scenario, percent(r.goodput.goodput.mean, 2)), body);
}

std::string timeline_svg(const GoodputForecast& r) {
  constexpr double kLeft = 60, kWidth = 720, kRow = 8;
  std::string body;
  const auto place = [&](const JobSpan& span, double begin, double end) {
    const double day = std::floor(begin / kRowSeconds);
    body +=
        rect(kLeft + (begin / kRowSeconds - day) * kWidth, 34 + day * kRow, (end - begin) / kRowSeconds * kWidth,
             kRow - 1, fill_of(span.category), span.cause.empty() ? "" : span.cause + ": " + to_string(span.category));
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
    body += label(kLeft - 6, 34 + d * kRow + kRow, fmt::format("day {}", d + 1), "end");
  const double bottom = 34 + days * kRow;
  for (const int hour : {0, 6, 12, 18, 24})
    body += label(kLeft + hour / 24.0 * kWidth, bottom + 14, fmt::format("{} h", hour), "soft mid");
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
    body += rect(x, y - 9 + 18 * rows, 10, 10, fill_of(what)) + label(x + 14, y + 18 * rows, name);
    x += 14 + width_of(name) + 14;
  }
  return document(kLeft + kWidth + 20, y + 18 * rows + 14, fmt::format("{}: one history, a row per day", r.scenario),
                  body);
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
  std::string body;
  for (int b = 0; b < kBins; ++b) {
    const double h = kHeight * bins[static_cast<std::size_t>(b)] / most;
    body += rect(kLeft + b * kWidth / kBins, 40 + kHeight - h, kWidth / kBins - 1, h, fill_of(TimeCategory::productive),
                 fmt::format("{} histories", bins[static_cast<std::size_t>(b)]));
  }
  const double mean = r.goodput.goodput.mean;
  const double at = kLeft + kWidth * std::clamp((mean - *low) / width, 0.0, 1.0);
  body +=
      fmt::format("<line x1=\"{0:.1f}\" y1=\"36\" x2=\"{0:.1f}\" y2=\"{1:.1f}\" class=\"mark\"/>\n", at, 40 + kHeight);
  body += label(kLeft, 58 + kHeight, percent(*low, 2)) + label(kLeft + kWidth, 58 + kHeight, percent(*high, 2), "end");
  body += label(kLeft + kWidth / 2, 76 + kHeight, fmt::format("goodput of a history; line: mean {}", percent(mean, 2)),
                "soft mid");
  body +=
      label(kLeft - 8, 50, fmt::format("{:.0f}", most), "soft end") + label(kLeft - 8, 40 + kHeight, "0", "soft end");
  return document(kLeft + kWidth + 40, kHeight + 90,
                  fmt::format("{}: number of histories by goodput, {} in all", r.scenario, r.goodput.histories), body);
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
  std::string body, curve;
  const double step = round_step(std::max(high - low, 1e-6));
  for (double g = std::ceil(low / step) * step; g <= high + 1e-9; g += step)
    body += line(kLeft, y_of(g), kLeft + kWidth, y_of(g)) +
            label(kLeft - 8, y_of(g) + 4, percent(g, step < 0.001 ? 2 : 1), "soft end");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Estimate& g = points[i].report.goodput.goodput;
    const double x = kLeft + kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(points.size());
    curve += fmt::format("{:.1f},{:.1f} ", x, y_of(g.mean));
    body += rect(x - 1, y_of(g.high), 2, y_of(g.low) - y_of(g.high), "var(--soft)");
    body += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}</title></circle>\n", x,
                        y_of(g.mean), fill_of(TimeCategory::productive), percent(g.mean, 2));
    body += label(x, kTop + kHeight + 18, points[i].value, "mid");
  }
  if (std::ranges::all_of(points, is_quantity, &SweepPoint::value))
    body += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", curve,
                        fill_of(TimeCategory::productive));
  body += label(kLeft + kWidth / 2, kTop + kHeight + 38, key + "; bars: 95 % interval of the mean", "soft mid");
  return document(kLeft + kWidth + 20, kTop + kHeight + 52, "goodput over " + key, body);
}

}  // namespace tracecast
