/// A schedule in a terminal: a row of boxes per rank.
///
/// A tick is the greatest time that divides all boundaries. It takes one column, or several if the page is wide enough.
/// If that needs too many columns, time is compressed: columns that have several kinds of work show them in turns. A box shows its letter
/// and micro-batch as far as they fit. Colours also differ in lightness, for readers who cannot distinguish red and green.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "sim/report/column_turns.hpp"
#include "sim/report/schedule_view.hpp"

namespace tracecast {

namespace {

/// xterm-256 backgrounds under black text: blue, orange, yellow, grey; deeper for odd chunks.
struct Paint {
  int even;
  int odd;
};
constexpr Paint kForward{111, 75};
constexpr Paint kBackward{215, 208};
constexpr Paint kInput{228, 220};
constexpr Paint kWeight{252, 247};

Paint paint_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return kForward;
    case ActionKind::backward:
      return kBackward;
    case ActionKind::backward_input:
      return kInput;
    case ActionKind::backward_weight:
      return kWeight;
    case ActionKind::forward_backward:
      break;
  }
  return kBackward;
}

std::string on(int background, const std::string& text, const TextStyle& style) {
  if (!style.colour || text.empty()) return text;
  return fmt::format("\x1b[30;48;5;{}m{}\x1b[0m", background, text);
}

/// Time to columns, the same for all views.
struct TimeAxis {
  double columns_per_unit = 1;
  int total = 0;  ///< columns of the longest view
  int width = 0;  ///< columns of one block
  bool compressed = false;
  int column(std::int64_t ticks, std::int64_t scale) const {
    return static_cast<int>(std::llround(static_cast<double>(ticks) / static_cast<double>(scale) * columns_per_unit));
  }
};

constexpr int kLabelWidth = 8;
/// With more blocks than this, time is compressed instead.
constexpr int kMaxBlocks = 12;

/// The greatest common divisor of all boundaries of a view, in ticks.
std::int64_t grain(const ScheduleRun& run) {
  std::int64_t grain = 0;
  for (const std::vector<ActionSpan>& list : run.actions) {
    for (const ActionSpan& span : list) grain = std::gcd(std::gcd(grain, span.start), span.end);
  }
  return std::max<std::int64_t>(grain, 1);
}

std::size_t widest_label(std::span<const ScheduleView> views) {
  std::size_t widest = 1;
  for (const ScheduleView& view : views) {
    widest = std::max(widest, 1 + std::to_string(view.schedule.microbatches - 1).size());
  }
  return widest;
}

TimeAxis axis_of(std::span<const ScheduleView> views, int page_width) {
  TimeAxis axis;
  axis.width = std::max(page_width - kLabelWidth, 16);
  double finest = 1e300;  // units per column at one column per grain
  double longest = 0;
  for (const ScheduleView& view : views) {
    const auto scale = static_cast<double>(view.run.scale);
    finest = std::min(finest, static_cast<double>(grain(view.run)) / scale);
    longest = std::max(longest, static_cast<double>(view.run.makespan) / scale);
  }
  const double columns = longest / finest;
  if (columns > static_cast<double>(axis.width) * kMaxBlocks) {
    axis.columns_per_unit = axis.width / std::max(longest, 1e-300);
    axis.compressed = true;
  } else {
    const double max_scale = std::max(std::floor(axis.width / std::max(columns, 1.0)), 1.0);
    axis.columns_per_unit = std::min(max_scale, static_cast<double>(widest_label(views)) + 1) / finest;
  }
  axis.total = static_cast<int>(std::llround(longest * axis.columns_per_unit));
  return axis;
}

/// Text for `width` columns of a box: the longest form of the label that fits.
std::string fit(const Action& action, int width, const TextStyle& style) {
  const std::string number = std::to_string(action.microbatch);
  const bool pair = action.kind == ActionKind::forward_backward;
  // Labels from long to short; the colour already shows the kind of a box.
  std::vector<std::string> labels{label_of(action)};
  if (pair) labels.push_back("F" + number + "B");
  if (!pair && style.colour && number.size() > 1) labels.push_back(number);
  labels.push_back(pair ? "X" : labels.front().substr(0, 1));
  const auto fits = [&](const std::string& label) { return static_cast<int>(label.size()) <= width; };
  const auto label = std::find_if(labels.begin(), labels.end(), fits);
  return pad_right(*label, width);  // a box is at least one column wide
}

/// The columns [begin, end) of a box in its colour; an overlapped pair shows one colour per half.
std::string box(const Action& action, int begin, int end, const TextStyle& style) {
  const std::string text = fit(action, end - begin, style);
  const auto tone = [](Paint paint, int chunk) { return chunk % 2 == 0 ? paint.even : paint.odd; };
  if (action.kind != ActionKind::forward_backward) return on(tone(paint_of(action.kind), action.chunk), text, style);
  const std::size_t half = (text.size() + 1) / 2;
  return on(tone(kForward, action.chunk), text.substr(0, half), style) +
         on(tone(kBackward, action.chunk2), text.substr(half), style);
}

constexpr std::size_t kIdle = 5;

/// What a column contains, by ActionKind and kIdle.
struct Column {
  std::array<double, kIdle + 1> shares{0, 0, 0, 0, 0, 1};
  std::array<double, kIdle> longest{};              ///< share of one action
  std::array<const ActionSpan*, kIdle + 1> span{};  ///< the longest; null: idle

  void add(const ActionSpan& action, double share) {
    const auto kind = static_cast<std::size_t>(action.action.kind);
    shares[kIdle] -= share;
    shares[kind] += share;
    if (share <= longest[kind]) return;
    longest[kind] = share;
    span[kind] = &action;
  }
};

/// The columns [from, to) of a rank.
std::vector<Column> columns_of(const ScheduleRun& run, std::size_t rank, const TimeAxis& axis, int from, int to) {
  std::vector<Column> columns(static_cast<std::size_t>(std::max(0, to - from)));
  const double per_tick = axis.columns_per_unit / static_cast<double>(run.scale);
  for (const ActionSpan& span : run.actions[rank]) {
    const double begin = static_cast<double>(span.start) * per_tick;
    const double end = static_cast<double>(span.end) * per_tick;
    const int last = std::min(to, static_cast<int>(std::ceil(end)));
    for (int c = std::max(from, static_cast<int>(begin)); c < last; ++c)
      columns[static_cast<std::size_t>(c - from)].add(span, std::min<double>(end, c + 1) - std::max<double>(begin, c));
  }
  return columns;
}

std::string row(const ScheduleView& view, std::size_t rank, const TimeAxis& axis, int from, const TextStyle& style) {
  const int to = std::min(from + axis.width, axis.column(view.run.makespan, view.run.scale));
  ColumnTurns<kIdle + 1> turns;
  std::vector<const ActionSpan*> columns;
  for (const Column& column : columns_of(view.run, rank, axis, from, to))
    columns.push_back(column.span[turns.next(column.shares)]);
  std::string text = pad_right(fmt::format("rank {}", rank), kLabelWidth);
  for (std::size_t at = 0, next = 0; at < columns.size(); at = next) {
    const ActionSpan* const shown = columns[at];
    for (next = at; next < columns.size() && columns[next] == shown;) ++next;
    if (shown != nullptr) {
      text += box(shown->action, static_cast<int>(at), static_cast<int>(next), style);
      continue;
    }
    std::string dots;
    for (std::size_t i = at; i < next; ++i) dots += style.unicode ? "·" : ".";
    text += paint(dots, Colour::grey, style);
  }
  return without_trailing_blanks(text) + "\n";
}

/// A ruler with times at round distances.
std::string ruler(const TimeAxis& axis, int from) {
  const int to = std::min(from + axis.width, axis.total);
  double step = 1;
  for (int k = 0; step * axis.columns_per_unit < 10; ++k) step *= k % 3 == 1 ? 2.5 : 2;
  std::string text;
  for (double time = 0;; time += step) {
    const int column = static_cast<int>(std::llround(time * axis.columns_per_unit));
    const std::string mark = fmt::format("|{:g}", time);
    if (column >= to || column - from + static_cast<int>(mark.size()) > axis.width) break;
    if (column < from) continue;
    text = pad_right(text, column - from) + mark;
  }
  return pad_right("time", kLabelWidth) + text + "\n";
}

std::string legend(std::span<const ScheduleView> views, const TextStyle& style) {
  bool whole = false;
  bool split = false;
  bool overlapped = false;
  bool chunks = false;
  bool copies = false;
  for (const ScheduleView& view : views) {
    chunks = chunks || view.schedule.chunks > view.schedule.replicas;
    copies = copies || view.schedule.replicas > 1;
    for (const auto& list : view.schedule.actions) {
      for (const Action& action : list) {
        whole = whole || action.kind == ActionKind::backward || action.kind == ActionKind::forward_backward;
        split = split || action.kind == ActionKind::backward_weight;
        overlapped = overlapped || action.kind == ActionKind::forward_backward;
      }
    }
  }
  std::string text = on(kForward.even, " F ", style) + " forward";
  if (whole) text += "  " + on(kBackward.even, " B ", style) + " backward";
  if (split) {
    text += (whole && style.width < 70 ? "\n" : "  ") + on(kInput.even, " I ", style) + " input gradient  " +
            on(kWeight.even, " W ", style) + " weight gradient";
  }
  text += "\n";
  if (overlapped) text += "F|B, or X in narrow boxes: a forward and a backward together\n";
  if (chunks && style.colour) text += "Deeper colours: odd chunks of the rank\n";
  if (copies && style.colour) text += "Deeper colours: the second copy of the model\n";
  return text;
}

std::string number_list(const std::vector<int>& values, double unit) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low == *high) return fmt::format("{:.4g}", *high * unit);
  return fmt::format("{:.4g}..{:.4g}", *low * unit, *high * unit);
}

std::string table(std::span<const ScheduleView> views, const TextStyle& style) {
  const bool narrow = style.width < 78;  // without two columns that are the same for most schedules
  const TextTable columns(narrow ? std::vector{-17, 9, 8, 9, 12} : std::vector{-17, 9, 9, 8, 9, 12, 8}, 0);
  const auto line = [&](const std::string& name, const std::string& makespan, const std::string& work,
                        const std::string& bubble, const std::string& own, const std::string& kept,
                        const std::string& weights) {
    return narrow ? columns.line(name, makespan, bubble, own, kept)
                  : columns.line(name, makespan, work, bubble, own, kept, weights);
  };
  std::string text =
      paint(line("schedule", "makespan", "work", "bubble", "own span", "activations", "weights"), Colour::bold, style) +
      "\n";
  const bool of_step = !views.front().times_from.empty();
  for (const ScheduleView& view : views) {
    const auto scale = static_cast<double>(view.run.scale);
    const auto& versions = view.schedule.weight_versions;
    const int copies = view.schedule.replicas * *std::max_element(versions.begin(), versions.end());
    const ScheduleView& first = views.front();
    const bool with_other_rules = view.schedule.name == first.schedule.name && view.rules != first.rules;
    text += line(with_other_rules ? "  " + view.rules : view.schedule.name,
                 fmt::format("{:.6g}", static_cast<double>(view.run.makespan) / scale),
                 fmt::format("{:.6g}", static_cast<double>(view.run.work) / scale),
                 percent(view.run.bubble_fraction, 2), of_step ? "-" : percent(view.run.own_span_bubble_fraction, 2),
                 number_list(view.run.peak_inflight_until_weight, activation_unit(view.schedule)),
                 fmt::format("{}x", copies)) +
            "\n";
  }
  const char* bubble =
      of_step ? "work: from the first to the last computation of every pass, with what it waits for in between "
                "(tensor, context and expert transfers, host); bubble: mean wait for other ranks and messages / "
                "makespan"
              : "bubble: 1 - mean work / makespan; own span: 1 - mean work / longest rank span";
  return text + paint(paragraph("", bubble, style), Colour::grey, style) +
         paint(paragraph("", "activations: most micro-batches kept on a rank", style), Colour::grey, style);
}

}  // namespace

std::string schedule_terminal(std::span<const ScheduleView> views, const TextStyle& style) {
  const TimeAxis axis = axis_of(views, style.width);
  std::string text;
  for (const ScheduleView& view : views) {
    const Schedule& s = view.schedule;
    std::string title = fmt::format("{}: {} {}, {} {}", s.name, s.ranks, s.ranks == 1 ? "rank" : "ranks",
                                    s.microbatches, s.microbatches == 1 ? "micro-batch" : "micro-batches");
    if (s.chunks / s.replicas > 1) title += fmt::format(", {} chunks per rank", s.chunks / s.replicas);
    if (s.replicas > 1) title += fmt::format(", {} copies of the model", s.replicas);
    text += paint(title, Colour::bold, style) + "\n";
    if (!view.rules.empty()) text += view.rules + "\n";
    if (!s.flush) text += "steady state: one of many steps that follow each other without a flush\n";
    if (!view.times_from.empty()) text += "step of " + view.times_from + ", in milliseconds\n";
    const ScheduleVariant* variant = find_schedule(s.name);
    if (!view.times_from.empty() && variant != nullptr && variant->updates_every_backward)
      text += "an update follows every backward; it is not drawn, and not in the bubble\n";
    else if (!view.times_from.empty() && !s.flush)
      text += paragraph("",
                        fmt::format("once in {} micro-batches: host, gradients and update, as long as after a flush; "
                                    "they are in the makespan, not drawn, and not in the bubble",
                                    s.microbatches),
                        style);
    const int end = axis.column(view.run.makespan, view.run.scale);
    for (int from = 0; from < std::max(end, 1); from += axis.width) {
      text += ruler(axis, from);
      for (std::size_t rank = 0; rank < s.actions.size(); ++rank) text += row(view, rank, axis, from, style);
    }
    text += "\n";
  }
  text += legend(views, style);
  if (axis.compressed)
    text += paragraph("",
                      fmt::format("A column is {:.3g} of this time. Columns with several kinds of work show them in "
                                  "turns, each as often as it has time.",
                                  1 / axis.columns_per_unit),
                      style);
  return text + "\n" + table(views, style);
}

}  // namespace tracecast
