#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "sim/report/compare_report.hpp"
#include "sim/report/schedule_colours.hpp"
#include "sim/report/svg.hpp"

namespace tracecast {
namespace {

constexpr int kLeft = 130;
constexpr int kWidth = 1000;
constexpr int kRow = 18;
constexpr int kTop = 40;
constexpr const char* kOptimizerColour = "#99ddff";
constexpr const char* kTransferColour = "#ffaabb";

const char* colour_of(const StepWork& work) {
  if (work.transfer) return kTransferColour;
  if (work.phase == "forward") return kForwardColour;
  if (work.phase == "backward") return kBackwardColour;
  return work.phase == "weight_gradient" ? kWeightColour : kOptimizerColour;
}

/// Spans of one rank that follow each other without a gap and look the same become one rectangle.
class Row {
 public:
  Row(SvgCanvas& out, double scale, int y) : out_(out), scale_(scale), y_(y) {}
  ~Row() { flush(); }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  void add(const char* colour, Duration start, Duration end) {
    constexpr double kVisible = 0.5;  // pixels
    const double from = seconds(start) * scale_;
    const double to = seconds(end) * scale_;
    if (colour == colour_ && from - to_ < kVisible) {
      to_ = std::max(to_, to);
      return;
    }
    flush();
    colour_ = colour;
    from_ = from;
    to_ = to;
  }

 private:
  void flush() {
    if (colour_ == nullptr) return;
    out_.add(svg_rect(kLeft + from_, y_, std::max(0.3, to_ - from_), kRow - 3, fmt::format("fill=\"{}\"", colour_)));
  }

  SvgCanvas& out_;
  double scale_;
  int y_;
  const char* colour_ = nullptr;
  double from_ = 0;
  double to_ = 0;
};

void draw(SvgCanvas& out, const StepRecord& record, std::int32_t rank, double scale, int y) {
  std::vector<const StepSpan*> spans;
  for (const StepSpan& span : record.spans)
    if (span.rank == rank && span.end > span.start) spans.push_back(&span);
  std::ranges::stable_sort(spans, {}, [](const StepSpan* span) { return span->start; });
  Row row(out, scale, y);
  for (const StepSpan* span : spans)
    row.add(colour_of(record.works[static_cast<std::size_t>(span->work)]), span->start, span->end);
}

void draw_legend(SvgCanvas& out, int y) {
  int x = kLeft;
  for (const auto& [name, colour] :
       {std::pair{"forward", kForwardColour}, std::pair{"backward", kBackwardColour},
        std::pair{"weight gradient", kWeightColour}, std::pair{"optimizer", kOptimizerColour},
        std::pair{"transfer", kTransferColour}}) {
    out.add(svg_rect(x, y, 12, 12, fmt::format("fill=\"{}\"", colour)));
    out.add(svg_text(x + 16, y + 11, "", name));
    x += 130;
  }
}

}  // namespace

std::string comparison_svg(const Comparison& c, const StepRecord& forecast, const StepRecord& actual) {
  const double axis = std::max(seconds(forecast.step_time), seconds(actual.step_time));
  const double scale = axis > 0 ? kWidth / axis : 0;
  const StepRecord& finer = actual.ranks.size() >= forecast.ranks.size() ? actual : forecast;
  const int height = kTop + static_cast<int>(finer.ranks.size()) * (2 * kRow + 6) + 50;
  SvgCanvas out;
  out.add("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>");
  out.add(svg_text(
      kLeft, 20, "font-size=\"14\"",
      fmt::format("{}: {} {}, {} {}, error {}", c.scenario, to_string(c.forecast_origin), time_text(c.forecast_s),
                  to_string(c.actual_origin), time_text(c.actual_s), signed_percent(c.error))));
  int y = kTop;
  for (const StepRank& rank : finer.ranks) {
    for (const StepRecord* record : {&forecast, &actual}) {
      out.add(svg_text(kLeft - 8, y + 12, "text-anchor=\"end\"",
                       record == &forecast ? fmt::format("rank {}  forecast", rank.number) : "actual"));
      draw(out, *record, static_cast<std::int32_t>(&rank_for(*record, rank) - record->ranks.data()), scale, y);
      y += kRow;
    }
    y += 6;
  }
  out.add(svg_text(kLeft, y + 12, "", "0"));
  out.add(svg_text(kLeft + kWidth, y + 12, "text-anchor=\"end\"", time_text(axis)));
  draw_legend(out, y + 22);
  return svg_frame(kLeft + kWidth + 20, height, "font-family=\"sans-serif\" font-size=\"12\"", out.elements());
}

}  // namespace tracecast
