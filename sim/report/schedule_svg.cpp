/// A schedule as SVG: a row of boxes per rank, and below it the rank's live activations. All views share one time axis.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "sim/report/schedule_colours.hpp"
#include "sim/report/schedule_view.hpp"
#include "sim/report/svg.hpp"

namespace tracecast {

namespace {

constexpr double kLeft = 70;  // space for rank names
constexpr double kRight = 20;
constexpr double kRow = 24;     // height of a box
constexpr double kMemory = 12;  // height of the strip of activations below it
constexpr double kGap = 6;
constexpr double kTitle = 44;         // title and ruler above each view
constexpr double kUsualWidth = 1600;  ///< at most, unless a width is asked for: fits a page

const char* colour_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return kForwardColour;
    case ActionKind::backward:
      return kBackwardColour;
    case ActionKind::backward_input:
      return kInputColour;
    case ActionKind::backward_weight:
      return kWeightColour;
    case ActionKind::forward_backward:
      break;
  }
  return kForwardColour;
}

double units(std::int64_t ticks, const ScheduleRun& run) {
  return static_cast<double>(ticks) / static_cast<double>(run.scale);
}

/// The shade of a chunk: the base colour for the first, darker for each later one.
std::string shade(const Schedule& s, int chunk) {
  if (s.chunks == 1 || chunk == 0) return "";
  return fmt::format(" style=\"filter:brightness({:.3g})\"", 1 - 0.28 * chunk / (s.chunks - 1));
}

class Drawing {
 public:
  Drawing(std::span<const ScheduleView> views, int width) : views_(views) {
    double shortest = 1e300;
    for (const ScheduleView& view : views) {
      longest_ = std::max(longest_, units(view.run.makespan, view.run));
      for (const auto& list : view.run.actions) {
        for (const ActionSpan& span : list) {
          if (span.end > span.start) shortest = std::min(shortest, units(span.end - span.start, view.run));
        }
      }
    }
    const double needed = std::clamp(widest_label() / shortest * longest_, 760.0, kUsualWidth - kLeft - kRight);
    const double plot = width > 0 ? width - kLeft - kRight : needed;
    per_unit_ = plot / longest_;
    width_ = std::max(kLeft + plot + kRight, 640.0);
  }

  std::string draw() {
    for (const ScheduleView& view : views_) draw_view(view);
    legend();
    constexpr SvgStyle style{.light = "--grid:#dddddd;--strip:#55555f",
                             .dark = "--grid:#333c45;--strip:#9c8fd6",
                             .text_rules = "text{font-size:11px}.title{font-size:14px}",
                             .rules =
                                 "line{stroke:var(--grid)}.box{fill:#000000;text-anchor:middle}"
                                 ".half{font-size:10px}.strip{fill:var(--strip)}"};
    return picture_.document(width_, y_ + kGap, views_.front().schedule.name, style);
  }

 private:
  /// Pixels that the longest label needs at 11 px.
  double widest_label() const {
    std::size_t letters = 2;
    for (const ScheduleView& view : views_) {
      letters = std::max(letters, 1 + std::to_string(view.schedule.microbatches - 1).size());
    }
    return 7.0 * static_cast<double>(letters) + 5;
  }

  double x(std::int64_t ticks, const ScheduleRun& run) const { return kLeft + units(ticks, run) * per_unit_; }

  void draw_view(const ScheduleView& view) {
    const Schedule& s = view.schedule;
    std::string title =
        fmt::format("{}, {} ranks, {} micro-batches: {:.6g} long, bubble {}", s.name, s.ranks, s.microbatches,
                    units(view.run.makespan, view.run), percent(view.run.bubble_fraction, 2));
    if (view.times_from.empty()) title += ", own-span bubble " + percent(view.run.own_span_bubble_fraction, 2);
    if (!s.flush) title += "; steady state";
    const ScheduleVariant* variant = find_schedule(s.name);
    if (!s.flush && !view.times_from.empty() && variant != nullptr && !variant->updates_every_backward)
      title += " with one update, which is not drawn";
    if (!view.rules.empty()) title += "; " + view.rules;
    if (!view.times_from.empty()) title += "; milliseconds, step of " + view.times_from;
    picture_.text(8, y_ + 18, title, "title");
    ruler(y_ + kTitle - 6, s.ranks * (kRow + kMemory + kGap));
    y_ += kTitle;
    const auto& peaks = view.run.peak_inflight_until_weight;
    const int highest = std::max(*std::max_element(peaks.begin(), peaks.end()), 1);
    for (std::size_t rank = 0; rank < s.actions.size(); ++rank) {
      picture_.add(svg_text(8, y_ + 16, "", fmt::format("rank {}", rank)));
      for (const ActionSpan& span : view.run.actions[rank]) box(view, rank, span);
      memory(view, rank, highest);
      y_ += kRow + kMemory + kGap;
    }
    y_ += kGap;
  }

  void ruler(double y, double height) {
    double step = 1;
    while (step * per_unit_ > 160) step /= 10;
    for (int k = 0; step * per_unit_ < 60; ++k) step *= k % 3 == 1 ? 2.5 : 2;
    for (int k = 0; k * step <= longest_ * (1 + 1e-9); ++k) {
      const double at = kLeft + k * step * per_unit_;
      picture_.line(at, y, at, y + height, "");
      picture_.text(at, y - 3, fmt::format("{:g}", k * step), "soft mid");
    }
  }

  void rectangle(double left, double top, double width, double height, const char* fill, const std::string& more) {
    picture_.rect(left, top, width, height, fmt::format("fill=\"{}\"{}", fill, more));
  }

  void box(const ScheduleView& view, std::size_t rank, const ActionSpan& time) {
    const Schedule& s = view.schedule;
    const Action& action = time.action;
    const double left = x(time.start, view.run);
    const double width = std::max(x(time.end, view.run) - left - 0.5, 0.3);
    picture_.add(fmt::format("<g><title>{}, {:.6g} to {:.6g}</title>", to_string(s, static_cast<int>(rank), action),
                             units(time.start, view.run), units(time.end, view.run)));
    rectangle(left, y_, width, kRow, colour_of(action.kind), shade(s, action.chunk));
    if (action.kind == ActionKind::forward_backward) {
      rectangle(left, y_ + kRow / 2, width, kRow / 2, kBackwardColour, shade(s, action.chunk2));
      if (width >= 18) {
        picture_.add(svg_text(left + width / 2, y_ + 10, "class=\"box half\"", std::to_string(action.microbatch)));
        picture_.add(svg_text(left + width / 2, y_ + 22, "class=\"box half\"", std::to_string(action.microbatch2)));
      }
    } else {
      // In a narrow box the number alone, in smaller letters.
      const std::string whole = label_of(action);
      const std::string label =
          width >= 6.5 * static_cast<double>(whole.size()) ? whole : std::to_string(action.microbatch);
      const double letters = std::min(11.0, width / (0.6 * static_cast<double>(label.size())));
      if (letters >= 5) {
        const std::string small = letters < 11 ? fmt::format(" style=\"font-size:{:.3g}px\"", letters) : "";
        picture_.add(svg_text(left + width / 2, y_ + 16, "class=\"box\"" + small, label));
      }
    }
    picture_.add("</g>");
  }

  /// Chunks in flight as an area, scaled so that the maximum over all ranks fills the strip.
  void memory(const ScheduleView& view, std::size_t rank, int highest) {
    const double bottom = y_ + kRow + kMemory;
    std::string path = fmt::format("M{:.6g} {:.6g}", kLeft, bottom);
    int now = view.run.kept_at_start[rank];
    path += fmt::format("V{:.6g}", bottom - (kMemory - 2) * now / highest);
    const auto step_to = [&](std::int64_t time, int change) {
      path += fmt::format("H{:.6g}", x(time, view.run));
      now += change;
      path += fmt::format("V{:.6g}", bottom - (kMemory - 2) * now / highest);
    };
    for (const ActionSpan& time : view.run.actions[rank]) {
      const ActionKind kind = time.action.kind;
      if (kind == ActionKind::forward || kind == ActionKind::forward_backward) step_to(time.start, 1);
      if (kind != ActionKind::forward && kind != ActionKind::backward_input) step_to(time.end, -1);
    }
    if (now > 0) path += fmt::format("H{:.6g}", x(view.run.makespan, view.run));
    picture_.add(fmt::format("<path d=\"{}V{:.6g}Z\" class=\"strip\"/>", path, bottom));
  }

  void legend() {
    struct Entry {
      const char* colour;
      const char* name;
      std::optional<ActionKind> kind;  ///< only if a picture has it
    };
    std::set<ActionKind> kinds;
    for (const ScheduleView& view : views_)
      for (const auto& list : view.run.actions)
        for (const ActionSpan& span : list) kinds.insert(span.action.kind);
    if (kinds.contains(ActionKind::forward_backward)) kinds.insert({ActionKind::forward, ActionKind::backward});
    double at = 8;
    // `space`: pixels of an entry with the distance to the next one.
    const auto text = [&](double space, const char* words, const char* colour) {
      if (at > 8 && at + space > width_) {
        at = 8;
        y_ += 18;
      }
      if (colour != nullptr) picture_.rect(at, y_, 12, 12, fmt::format("style=\"fill:{}\"", colour));
      picture_.add(svg_text(colour != nullptr ? at + 17 : at, y_ + 10, "", words));
      at += space;
    };
    for (const Entry& entry : {Entry{kForwardColour, "F forward", ActionKind::forward},
                               Entry{kBackwardColour, "B backward", ActionKind::backward},
                               Entry{kInputColour, "I input gradient", ActionKind::backward_input},
                               Entry{kWeightColour, "W weight gradient", ActionKind::backward_weight},
                               Entry{"var(--strip)", "activations kept", std::nullopt}}) {
      if (entry.kind && !kinds.contains(*entry.kind)) continue;
      text(128, entry.name, entry.colour);
    }
    if (kinds.contains(ActionKind::forward_backward))
      text(305, "upper and lower half: forward and backward together", nullptr);
    if (std::ranges::any_of(views_, [](const ScheduleView& v) { return v.schedule.chunks > v.schedule.replicas; }))
      text(190, "darker: later chunks of the rank", nullptr);
    if (std::ranges::any_of(views_, [](const ScheduleView& v) { return v.schedule.replicas > 1; }))
      text(240, "darker: the second copy of the model", nullptr);
    text(150, views_.front().times_from.empty() ? "time in the units of --tf" : "time in milliseconds", nullptr);
    y_ += 20;
  }

  std::span<const ScheduleView> views_;
  double longest_ = 0;
  double per_unit_ = 1;
  double width_ = 640;
  double y_ = 0;
  SvgCanvas picture_;
};

}  // namespace

std::string schedule_svg(std::span<const ScheduleView> views, int width) { return Drawing(views, width).draw(); }

}  // namespace tracecast
