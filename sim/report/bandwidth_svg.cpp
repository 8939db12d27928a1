#include "sim/report/bandwidth_svg.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/result.hpp"
#include "sim/report/svg.hpp"

namespace tracecast {
namespace {

constexpr double kWidth = 820;
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kTop = 60;
constexpr double kPlotWidth = kWidth - kLeft - 30;
constexpr double kPlotHeight = kHeight - kTop - 70;

constexpr SvgStyle kStyle{.light = "--grid:#d9dee3;--curve:#2a6fb0",
                          .dark = "--grid:#333c45;--curve:#77aadd",
                          .rules =
                              "line{stroke:var(--grid)}.curve{stroke:var(--curve);stroke-width:2;fill:none}"
                              ".band{fill:var(--curve);opacity:.15}circle{fill:var(--curve)}"
                              ".mark{stroke:var(--soft);stroke-dasharray:3 3}"};

class Plot {
 public:
  explicit Plot(const std::vector<BandwidthPoint>& points) : points_(points) {
    low_ = std::log2(static_cast<double>(points.front().size.count));
    high_ = std::max(low_ + 1, std::log2(static_cast<double>(points.back().size.count)));
    for (const BandwidthPoint& p : points) most_ = std::max(most_, p.busbw * (1 + p.spread) * 1e-9);
  }

  std::string draw(const std::string& title) {
    picture_.text(kLeft, 28, title, "title");
    axes();
    band();
    curve();
    choices();
    return picture_.document(kWidth, kHeight, title, kStyle);
  }

 private:
  double x_of(Bytes size) const {
    return kLeft + kPlotWidth * (std::log2(static_cast<double>(size.count)) - low_) / (high_ - low_);
  }
  double y_of(double gigabytes) const { return kTop + kPlotHeight * (1 - std::min(gigabytes / most_, 1.0)); }

  void axes() {
    const double step = round_step(most_);
    most_ = step * std::ceil(most_ / step);
    for (double value = 0; value <= most_ * 1.001; value += step) {
      picture_.line(kLeft, y_of(value), kLeft + kPlotWidth, y_of(value), "");
      picture_.text(kLeft - 8, y_of(value) + 4, fmt::format("{:g}", value), "soft end");
    }
    picture_.text(8, kTop - 12, "busbw, GB/s, by size; shaded: ± one standard deviation", "soft");
    const std::size_t every = std::max<std::size_t>(1, (points_.size() + 9) / 10);
    for (std::size_t i = 0; i < points_.size(); i += every) {
      const std::int64_t bytes = points_[i].size.count;
      const int unit = bytes >= 1 << 30 ? 3 : bytes >= 1 << 20 ? 2 : bytes >= 1 << 10 ? 1 : 0;
      constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
      const double value = static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << (10 * unit));
      picture_.text(x_of(points_[i].size), kTop + kPlotHeight + 20, fmt::format("{:.4g} {}", value, kUnits[unit]),
                    "soft mid");
    }
  }

  void band() {
    SvgPoints outline;
    for (const BandwidthPoint& p : points_) outline.emplace_back(x_of(p.size), y_of(p.busbw * (1 + p.spread) * 1e-9));
    for (std::size_t i = points_.size(); i-- > 0;)
      outline.emplace_back(x_of(points_[i].size), y_of(points_[i].busbw * std::max(0.0, 1 - points_[i].spread) * 1e-9));
    picture_.polygon(outline, "class=\"band\"");
  }

  void curve() {
    SvgPoints curve;
    for (const BandwidthPoint& p : points_) {
      const auto& [x, y] = curve.emplace_back(x_of(p.size), y_of(p.busbw * 1e-9));
      picture_.circle(
          x, y, 3, "class=\"point\"",
          fmt::format("{}: {}, {}", to_text(p.size), to_text(Bandwidth{static_cast<std::int64_t>(p.busbw)}), p.chosen));
    }
    picture_.polyline(curve, "class=\"curve\"");
  }

  /// A dashed line where the algorithm or protocol changes, with its name above in one of two rows.
  void choices() {
    std::string last;
    int changes = 0;
    for (const BandwidthPoint& p : points_) {
      if (p.chosen == last) continue;
      last = p.chosen;
      if (changes > 0) picture_.line(x_of(p.size), kTop, x_of(p.size), kTop + kPlotHeight, "mark");
      picture_.text(x_of(p.size) + 4, kTop + kPlotHeight + (changes % 2 == 0 ? 40 : 56), p.chosen, "soft");
      ++changes;
    }
  }

  const std::vector<BandwidthPoint>& points_;
  double low_ = 0;
  double high_ = 1;
  double most_ = 1e-3;
  SvgCanvas picture_;
};

}  // namespace

std::string bandwidth_svg(const std::string& title, const std::vector<BandwidthPoint>& points) {
  TRACECAST_ASSERT(!points.empty() && points.front().size.count > 0, "a curve has points of some size");
  return Plot(points).draw(title);
}

}  // namespace tracecast
