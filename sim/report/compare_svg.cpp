#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/report/compare_report.hpp"
#include "sim/report/schedule_colours.hpp"

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
  Row(std::string& out, double scale, int y) : out_(out), scale_(scale), y_(y) {}
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
    out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n", kLeft + from_, y_,
                        std::max(0.3, to_ - from_), kRow - 3, colour_);
  }

  std::string& out_;
  double scale_;
  int y_;
  const char* colour_ = nullptr;
  double from_ = 0;
  double to_ = 0;
};

void draw(std::string& out, const StepRecord& record, std::int32_t rank, double scale, int y) {
  std::vector<const StepSpan*> spans;
  for (const StepSpan& span : record.spans)
    if (span.rank == rank && span.end > span.start) spans.push_back(&span);
  std::ranges::stable_sort(spans, {}, [](const StepSpan* span) { return span->start; });
  Row row(out, scale, y);
  for (const StepSpan* span : spans)
    row.add(colour_of(record.works[static_cast<std::size_t>(span->work)]), span->start, span->end);
}

std::string legend(int y) {
  std::string out;
  int x = kLeft;
  for (const auto& [name, colour] :
       {std::pair{"forward", kForwardColour}, std::pair{"backward", kBackwardColour},
        std::pair{"weight gradient", kWeightColour}, std::pair{"optimizer", kOptimizerColour},
        std::pair{"transfer", kTransferColour}}) {
    out += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>\n", x, y,
        colour, x + 16, y + 11, name);
    x += 130;
  }
  return out;
}

}  // namespace

std::string comparison_svg(const Comparison& c, const StepRecord& forecast, const StepRecord& actual) {
  const double axis = std::max(seconds(forecast.step_time), seconds(actual.step_time));
  const double scale = axis > 0 ? kWidth / axis : 0;
  const StepRecord& finer = actual.ranks.size() >= forecast.ranks.size() ? actual : forecast;
  const int height = kTop + static_cast<int>(finer.ranks.size()) * (2 * kRow + 6) + 50;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"20\" font-size=\"14\">{3}: {4} {5}, {6} {7}, error {8:+.1f} %</text>\n",
      kLeft + kWidth + 20, height, kLeft, c.scenario, to_string(c.forecast_origin), to_text(from_seconds(c.forecast_s)),
      to_string(c.actual_origin), to_text(from_seconds(c.actual_s)), 100 * c.error);
  int y = kTop;
  for (const StepRank& rank : finer.ranks) {
    for (const StepRecord* record : {&forecast, &actual}) {
      out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, y + 12,
                         record == &forecast ? fmt::format("rank {}  forecast", rank.number) : "actual");
      draw(out, *record, static_cast<std::int32_t>(&rank_for(*record, rank) - record->ranks.data()), scale, y);
      y += kRow;
    }
    y += 6;
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\">0</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft,
                     y + 12, kLeft + kWidth, y + 12, to_text(from_seconds(axis)));
  return out + legend(y + 22) + "</svg>\n";
}

}  // namespace tracecast
