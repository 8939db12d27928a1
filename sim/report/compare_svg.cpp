#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "sim/report/compare_report.hpp"
#include "sim/report/schedule_colours.hpp"
#include "sim/report/svg.hpp"

namespace tracecast {
namespace {

constexpr int kLeft = 140;
constexpr int kWidth = 1000;
constexpr int kColumns = 2 * kWidth;  ///< half a pixel each
constexpr int kRow = 18;
constexpr int kTop = 56;
constexpr std::size_t kMaxRanks = 64;

/// A letter of activity_letters() in the picture.
struct Fill {
  char letter;
  const char* name;
  const char* colour;
};
constexpr std::array<Fill, 6> kFills{{{'F', "forward", kForwardColour},
                                      {'B', "backward", kBackwardColour},
                                      {'W', "weight gradient", kWeightColour},
                                      {'O', "optimizer", "#44bb99"},
                                      {'~', "transfer alone", "#ffaabb"},
                                      {'.', "idle", "var(--idle)"}}};

void draw(SvgCanvas& out, const std::string& letters, int y) {
  for (std::size_t begin = 0; begin < letters.size();) {
    const std::size_t end = std::min(letters.find_first_not_of(letters[begin], begin), letters.size());
    const auto fill = std::ranges::find(kFills, letters[begin], &Fill::letter);
    if (fill != kFills.end())
      out.rect(kLeft + static_cast<double>(begin) / 2, y, static_cast<double>(end - begin) / 2, kRow - 3,
               fmt::format("style=\"fill:{}\"", fill->colour));
    begin = end;
  }
}

/// Lines at round times, behind the rows.
std::string ruler(double axis_s, int bottom) {
  SvgCanvas out;
  const double step = round_step(axis_s);
  for (int i = 0; i * step <= axis_s; ++i) {
    const double x = kLeft + kWidth * i * step / axis_s;
    out.line(x, kTop - 6, x, bottom, "");
    out.text(x, kTop - 10, time_text(i * step), "soft mid");
  }
  return out.elements();
}

/// What `rows` contain.
void draw_legend(SvgCanvas& out, const std::string& rows, int y) {
  int x = kLeft;
  for (const Fill& fill : kFills) {
    if (rows.find(fill.letter) == std::string::npos) continue;
    out.rect(x, y, 12, 12, fmt::format("style=\"fill:{}\"", fill.colour));
    out.text(x + 16, y + 11, fill.name, "");
    x += 130;
  }
}

}  // namespace

std::string comparison_svg(const Comparison& c, const StepRecord& forecast, const StepRecord& actual) {
  const double axis = std::max({seconds(forecast.step_time), seconds(actual.step_time), 1e-12});
  const std::vector<RankPair> pairs = rank_pairs(c, forecast, actual, kMaxRanks);
  SvgCanvas out;
  const std::string title = fmt::format("{}: forecast {} ({}), actual {} ({}), error {}", c.scenario,
                                        time_text(c.forecast_s), to_string(c.forecast_origin), time_text(c.actual_s),
                                        to_string(c.actual_origin), signed_percent(c.error));
  out.text(8, 22, title, "title");
  int y = kTop;
  std::string all;
  const auto row = [&](const StepRecord& record, std::size_t rank, int number, const char* what) {
    const std::string letters = activity_letters(record, rank, axis, kColumns);
    out.text(kLeft - 8, y + 12, fmt::format("rank {} {}", number, what), "end");
    draw(out, letters, y);
    all += letters;
    y += kRow;
  };
  for (const RankPair& pair : pairs) {
    const int number = number_of(pair, forecast, actual);
    row(forecast, pair.forecast, number, "forecast");
    row(actual, pair.actual, number, "actual");
    y += 6;
  }
  draw_legend(out, all, y + 8);
  const std::size_t ranks = std::min(forecast.ranks.size(), actual.ranks.size());
  if (pairs.size() < ranks)
    out.text(kLeft, y + 42, fmt::format("{} of {} ranks are drawn", pairs.size(), ranks), "soft");
  constexpr SvgStyle style{.light = "--grid:#d9dee3;--idle:#eef0f2",
                           .dark = "--grid:#333c45;--idle:#262c33",
                           .rules = "line{stroke:var(--grid)}"};
  return out.document(kLeft + kWidth + 30, y + (pairs.size() < ranks ? 54 : 32), title, style, ruler(axis, y));
}

}  // namespace tracecast
