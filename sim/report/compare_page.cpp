#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "sim/report/column_turns.hpp"
#include "sim/report/compare_report.hpp"
#include "sim/report/page_parts.hpp"

namespace tracecast {
namespace {

constexpr int kNameWidth = 26;
constexpr std::size_t kLargest = 6;
constexpr std::size_t kRankRows = 8;

std::string table(std::string_view title, const std::vector<Difference>& list, const TextStyle& style,
                  std::size_t most = SIZE_MAX) {
  const auto empty = [](const Difference& d) { return d.forecast_s == 0 && d.actual_s == 0; };
  if (std::ranges::all_of(list, empty)) return "";
  const TextTable columns({-kNameWidth, 11, 11, 11, 11}, 2, 0);
  std::string text = "\n" + heading(title, style) +
                     paint(columns.line("", "forecast", "actual", "error", "of step"), Colour::grey, style) + "\n";
  std::vector<Difference> shown = list;
  if (list.size() > most)
    std::ranges::stable_sort(shown, std::greater{}, [](const Difference& d) { return std::abs(d.share); });
  for (const Difference& d : shown | std::views::take(most))
    text += columns.row(pad_right(d.name, kNameWidth, style), time_text(d.forecast_s), time_text(d.actual_s),
                        d.actual_s > 0 ? signed_percent(d.forecast_s / d.actual_s - 1) : "", signed_percent(d.share));
  if (list.size() > most) text += paragraph("  ", fmt::format("{} more: --json has all", list.size() - most), style);
  return text;
}

/// Letters of the picture with their meanings, in the order of letter_of().
struct Activity {
  char letter;
  std::string_view name;
};
constexpr std::array<Activity, 6> kActivities{{{'F', "forward"},
                                               {'B', "backward"},
                                               {'W', "weight gradient"},
                                               {'O', "optimizer"},
                                               {'~', "transfer alone"},
                                               {'.', "idle"}}};
constexpr std::size_t kTransfer = 4;
constexpr std::size_t kIdle = 5;
std::size_t letter_of(const StepWork& work) {
  if (work.transfer) return kTransfer;
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

/// Explains the letters that `rows` contain.
std::string legend(const std::string& rows) {
  std::string text;
  for (const Activity& activity : kActivities)
    if (rows.find(activity.letter) != std::string::npos)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", activity.letter, activity.name);
  return text + "; a column with several shows one of them, each in its turn";
}

std::string picture(const Comparison& c, const StepRecord& forecast, const StepRecord& actual, const TextStyle& style) {
  constexpr std::size_t kMaxRanks = 8;
  const double axis = std::max(seconds(forecast.step_time), seconds(actual.step_time));
  const int width = std::max(20, style.width - 22);
  std::string text = "\n" + heading(fmt::format("Both on one axis of {}", time_text(axis)), style);
  const std::vector<RankPair> pairs = rank_pairs(c, forecast, actual, kMaxRanks);
  std::string all;
  for (const RankPair& pair : pairs) {
    const std::string above = activity_letters(forecast, pair.forecast, axis, width);
    const std::string below = activity_letters(actual, pair.actual, axis, width);
    text += fmt::format("  rank {:<5} forecast {}\n", number_of(pair, forecast, actual), painted(above, style));
    text += fmt::format("             actual   {}\n", painted(below, style));
    all += above + below;
  }
  return text + paragraph("  ", legend(all), style);
}

std::span<const Difference> named_disagreements(const Comparison& c) {
  const std::span<const Difference> first(c.largest.data(), std::min(kLargest, c.largest.size()));
  const auto small = std::ranges::find_if(first, [](const Difference& d) { return d.cause.empty(); });
  return first.first(static_cast<std::size_t>(small - first.begin()));
}

std::string largest(const Comparison& c, const TextStyle& style) {
  std::string text = "\n" + heading("Largest disagreements", style);
  for (const Difference& d : named_disagreements(c))
    text += paragraph("  ", fmt::format("{} {} of the step: {}", d.name, signed_percent(d.share), d.cause), style);
  if (named_disagreements(c).empty()) text += "  none above half a percent of the step\n";
  return text;
}

}  // namespace

std::vector<RankPair> rank_pairs(const StepRecord& forecast, const StepRecord& actual, std::size_t most_ranks) {
  const bool fewer = forecast.ranks.size() <= actual.ranks.size();
  const StepRecord& coarser = fewer ? forecast : actual;
  const StepRecord& finer = fewer ? actual : forecast;
  std::vector<RankPair> pairs;
  for (const std::size_t one : ranks_to_draw(coarser, most_ranks)) {
    const auto other = static_cast<std::size_t>(&rank_for(finer, coarser.ranks[one]) - finer.ranks.data());
    pairs.push_back(fewer ? RankPair{one, other} : RankPair{other, one});
  }
  return pairs;
}

int number_of(const RankPair& pair, const StepRecord& forecast, const StepRecord& actual) {
  return std::max(forecast.ranks[pair.forecast].number, actual.ranks[pair.actual].number);
}

std::vector<RankPair> rank_pairs(const Comparison& c, const StepRecord& forecast, const StepRecord& actual,
                                 std::size_t most_ranks) {
  std::vector<RankPair> pairs = rank_pairs(forecast, actual, most_ranks);
  const auto number = [&](const RankPair& pair) { return number_of(pair, forecast, actual); };
  const StepRecord& finer = forecast.ranks.size() <= actual.ranks.size() ? actual : forecast;
  for (const Difference& d : named_disagreements(c)) {
    const auto named = std::ranges::find(finer.ranks, d.rank, &StepRank::number);
    if (d.rank < 0 || named == finer.ranks.end() || std::ranges::find(pairs, d.rank, number) != pairs.end()) continue;
    const auto index = [&](const StepRecord& record) {
      return static_cast<std::size_t>(&rank_for(record, *named) - record.ranks.data());
    };
    pairs.push_back({index(forecast), index(actual)});
  }
  std::ranges::stable_sort(pairs, {}, number);
  return pairs;
}

std::string activity_letters(const StepRecord& record, std::size_t rank, double axis_s, int count) {
  std::vector<std::array<double, kActivities.size()>> busy(static_cast<std::size_t>(count));
  const double column = axis_s / count;
  for (const StepSpan& span : record.spans) {
    if (static_cast<std::size_t>(span.rank) != rank) continue;
    const std::size_t letter = letter_of(record.works[static_cast<std::size_t>(span.work)]);
    const double begin = seconds(span.start) / column;
    const double end = std::min<double>(count, seconds(span.end) / column);
    for (auto c = static_cast<int>(begin); c < count && c < end; ++c)
      busy[static_cast<std::size_t>(c)][letter] += std::min<double>(end, c + 1) - std::max<double>(begin, c);
  }
  const double over = seconds(record.step_time) / column;
  std::string text;
  ColumnTurns<kActivities.size()> turns;
  for (int c = 0; c < count; ++c) {
    auto& shares = busy[static_cast<std::size_t>(c)];
    const double length = std::clamp(over - c, 0.0, 1.0);
    const double computing = std::accumulate(shares.begin(), shares.begin() + kTransfer, 0.0);
    shares[kTransfer] = std::min(shares[kTransfer], std::max(0.0, length - computing));
    shares[kIdle] = std::max(0.0, length - computing - shares[kTransfer]);
    text += length < 0.5 ? ' ' : kActivities[turns.next(shares)].letter;
  }
  return text;
}

std::string comparison_page(const Comparison& c, const StepRecord& forecast, const StepRecord& actual,
                            const TextStyle& style) {
  const std::string error = signed_percent(c.error);
  std::string text =
      paragraph("",
                fmt::format("{}: forecast {} ({}), actual {} ({})", c.scenario, time_text(c.forecast_s),
                            to_string(c.forecast_origin), time_text(c.actual_s), to_string(c.actual_origin)),
                style);
  if (actual.repeats)
    text +=
        fmt::format("  lower quartile of {} repeats, which spread by {}\n", actual.repeats->count, percent(c.spread));
  text += fmt::format("  error {}, {} the tolerance of {:.4g} %\n",
                      paint(error, c.within() ? Colour::green : Colour::red, style), c.within() ? "within" : "outside",
                      100 * c.tolerance);
  text += largest(c, style);
  text += table("Phases, mean rank", c.phases, style);
  text += table("Operators", c.works, style);
  text += table("Transfers, moving", c.transfers, style);
  text += table("Ranks", c.ranks, style, kRankRows);
  text += table("Waiting in transfers for other ranks", c.waits, style, kRankRows);
  return text + picture(c, forecast, actual, style);
}

}  // namespace tracecast
