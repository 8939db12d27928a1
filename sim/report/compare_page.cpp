#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "sim/report/compare_report.hpp"

namespace tracecast {
namespace {

constexpr int kNameWidth = 26;
constexpr std::size_t kLargest = 6;

std::string table(std::string_view title, const std::vector<Difference>& list, const TextStyle& style) {
  if (list.empty()) return "";
  const TextTable columns({-kNameWidth, 11, 11, 11, 11}, 2, 0);
  std::string text = "\n" + heading(title, style) +
                     paint(columns.line("", "forecast", "actual", "error", "of step"), Colour::grey, style) + "\n";
  for (const Difference& d : list)
    text += columns.row(pad_right(d.name, kNameWidth, style), time_text(d.forecast_s), time_text(d.actual_s),
                        d.actual_s > 0 ? signed_percent(d.forecast_s / d.actual_s - 1) : "", signed_percent(d.share));
  return text;
}

/// The letter shown in a column of the picture: that of the operation with the most time in it.
constexpr std::string_view kLetters = "FBWO~.";
std::size_t letter_of(const StepWork& work) {
  if (work.transfer) return 4;
  if (work.phase == "forward") return 0;
  if (work.phase == "backward") return 1;
  return work.phase == "weight_gradient" ? 2 : 3;
}

Colour colour_of(char letter) {
  switch (letter) {
    case 'F':
      return Colour::blue;
    case 'B':
      return Colour::yellow;
    case 'W':
      return Colour::cyan;
    case 'O':
      return Colour::magenta;
    case '~':
      return Colour::red;
    default:
      return Colour::grey;
  }
}

std::string lane(const StepRecord& record, std::int32_t rank, double axis_s, int width) {
  std::vector<std::array<double, kLetters.size()>> busy(static_cast<std::size_t>(width));
  const double column = axis_s / width;
  for (const StepSpan& span : record.spans) {
    if (span.rank != rank) continue;
    const std::size_t letter = letter_of(record.works[static_cast<std::size_t>(span.work)]);
    const double begin = seconds(span.start) / column;
    const double end = std::min<double>(width, seconds(span.end) / column);
    for (auto c = static_cast<int>(begin); c < width && c < end; ++c)
      busy[static_cast<std::size_t>(c)][letter] += std::min<double>(end, c + 1) - std::max<double>(begin, c);
  }
  std::string text;
  for (auto& shares : busy) {
    double sum = 0;
    for (double share : shares) sum += share;
    shares[kLetters.size() - 1] = std::max(0.0, 1 - sum);
    text += kLetters[static_cast<std::size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin())];
  }
  return text;
}

std::string painted(const std::string& letters, const TextStyle& style) {
  std::string text;
  for (std::size_t i = 0; i < letters.size();) {
    std::size_t end = i;
    while (end < letters.size() && letters[end] == letters[i]) ++end;
    text += paint(letters.substr(i, end - i), colour_of(letters[i]), style);
    i = end;
  }
  return text;
}

std::string picture(const StepRecord& forecast, const StepRecord& actual, const TextStyle& style) {
  constexpr std::size_t kMaxRanks = 8;
  const double axis = std::max(seconds(forecast.step_time), seconds(actual.step_time));
  const int width = std::max(20, style.width - 21);
  std::string text = "\n" + heading(fmt::format("Both on one axis of {}", time_text(axis)), style);
  const StepRecord& finer = actual.ranks.size() >= forecast.ranks.size() ? actual : forecast;
  for (std::size_t i = 0; i < std::min(kMaxRanks, finer.ranks.size()); ++i) {
    const StepRank& rank = finer.ranks[i];
    const auto index = [&rank](const StepRecord& record) {
      return static_cast<std::int32_t>(&rank_for(record, rank) - record.ranks.data());
    };
    text += fmt::format("  rank {:<4} forecast {}\n", rank.number,
                        painted(lane(forecast, index(forecast), axis, width), style));
    text += fmt::format("            actual   {}\n", painted(lane(actual, index(actual), axis, width), style));
  }
  return text + "  F forward  B backward  W weight gradients  O optimizer  ~ transfer  . waiting\n";
}

std::string largest(const Comparison& c, const TextStyle& style) {
  std::string text = "\n" + heading("Largest disagreements", style);
  std::size_t shown = 0;
  for (const Difference& d : c.largest) {
    if (shown == kLargest || d.cause.empty()) break;
    ++shown;
    text += paragraph("  ", fmt::format("{} {} of the step: {}", d.name, signed_percent(d.share), d.cause), style);
  }
  if (shown == 0) text += "  none above half a percent of the step\n";
  return text;
}

}  // namespace

std::string comparison_page(const Comparison& c, const StepRecord& forecast, const StepRecord& actual,
                            const TextStyle& style) {
  std::string text = fmt::format("{}: {} {}, {} {}, error {}\n", c.scenario, to_string(c.forecast_origin),
                                 time_text(c.forecast_s), to_string(c.actual_origin), time_text(c.actual_s),
                                 paint(signed_percent(c.error), c.within() ? Colour::green : Colour::red, style));
  if (actual.repeats)
    text +=
        fmt::format("  lower quartile of {} repeats, which spread by {}\n", actual.repeats->count, percent(c.spread));
  text += fmt::format("  {} the tolerance of {:.4g} %\n", c.within() ? "within" : "outside", 100 * c.tolerance);
  text += largest(c, style);
  text += table("Phases, mean rank", c.phases, style);
  text += table("Operators", c.works, style);
  text += table("Transfers, moving", c.transfers, style);
  text += table("Ranks", c.ranks, style);
  text += table("Waiting in transfers for other ranks", c.waits, style);
  return text + picture(forecast, actual, style);
}

}  // namespace tracecast
