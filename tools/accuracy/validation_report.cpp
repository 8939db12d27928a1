#include "tools/accuracy/validation_report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/report/page_parts.hpp"
#include "sim/report/svg.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/percent.hpp"

namespace tracecast::accuracy {
namespace {

using Json = nlohmann::ordered_json;

std::string seconds_text(double s) { return fmt::format("{:.4g}", s); }

/// 79 columns for ids of up to 26.
const TextTable kRows({-26, 8, 8, 7, -19, -3});
const TextTable kGroups({-30, 4, 7, 6, 6, 6, 6, 6});

std::string row_line(const RowForecast& r) {
  const std::string band = fmt::format(" {} to {}", seconds_text(r.band.p5_s), seconds_text(r.band.p95_s));
  const std::string id = pad_right(r.id.empty() ? "-" : r.id, 26);
  if (!r.scored()) return kRows.row(id, seconds_text(r.predicted_s), "-", "-", band);
  return kRows.row(id, seconds_text(r.predicted_s), seconds_text(r.measured_s), signed_percent_number(r.error()), band,
                   r.inside_band() ? "" : "out");
}

/// A name that is longer than its column has a line of its own.
std::string group_line(const std::string& name, const std::vector<const RowForecast*>& rows) {
  const ErrorSummary s = summarise(rows);
  const Measure m = measure(rows);
  const bool fits = columns(name) <= 30;
  return (fits ? "" : "  " + name + "\n") + kGroups.row(fits ? name : "", s.rows, percent_number(m.mean_of_medians),
                                                        percent_number(s.mean), percent_number(s.worst),
                                                        signed_percent_number(s.bias), percent_number(s.coverage),
                                                        percent_number(s.half_width));
}

std::string summary_lines(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by) {
  std::string text = kGroups.row("percent", "rows", "measure", "mean", "worst", "bias", "inside", "+-band") +
                     group_line("all", scored(rows));
  if (!by.empty())
    for (const auto& [name, group] : grouped(table, rows, by)) text += group_line(name, group);
  return text;
}

/// The first few.
std::string some_of(const std::vector<std::string>& ids) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, ids.size()); ++i) text += (i > 0 ? ", " : "") + ids[i];
  return ids.size() > kShown ? text + ", .." : text;
}

std::string memory_line(const std::vector<RowForecast>& rows, const TextStyle& style) {
  const MemorySummary m = summarise_memory(rows);
  std::string text = m.rows == 0 ? "no row reports a peak"
                                 : fmt::format("{} {} a peak: mean error {} %, bias {} %", m.rows,
                                               m.rows == 1 ? "row reports" : "rows report", percent_number(m.mean),
                                               signed_percent_number(m.bias));
  text += fmt::format("; {} of {} completed runs are forecast to fit", m.completed_fit, m.completed);
  if (m.out_of_memory > 0)
    text += fmt::format(", {} of {} that ran out of memory are forecast not to", m.out_of_memory_seen, m.out_of_memory);
  return paragraph("  ", text, style);
}

Json band_json(const Band& band) { return {{"p5_s", band.p5_s}, {"p50_s", band.p50_s}, {"p95_s", band.p95_s}}; }

Json summary_json(const std::vector<const RowForecast*>& rows) {
  if (rows.empty()) return {{"rows", 0}};
  const ErrorSummary s = summarise(rows);
  const Measure m = measure(rows);
  return {{"rows", s.rows},
          {"sources", m.sources},
          {"mean_of_source_medians", m.mean_of_medians},
          {"scatter_inside_sources", m.scatter ? Json(*m.scatter) : Json(nullptr)},
          {"mean_absolute_error", s.mean},
          {"median_absolute_error", s.median},
          {"worst_absolute_error", s.worst},
          {"bias", s.bias},
          {"within_10_percent", s.within_10},
          {"inside_band", s.coverage},
          {"band_half_width", s.half_width}};
}

Json row_json(const RowForecast& r) {
  Json sensitivities = Json::object();
  for (std::size_t k = 0; k < kCostParameters; ++k)
    if (r.sensitivities.path_s[k] > 0)
      sensitivities[to_string(static_cast<CostParameter>(k))] = r.sensitivities.path_s[k];
  const auto or_null = [](bool there, double value) { return there ? Json(value) : Json(nullptr); };
  const bool made = r.forecast_made();
  return {{"id", r.id},
          {"source", r.source},
          {"predicted_step_time_s", or_null(made, r.predicted_s)},
          {"measured_step_time_s", or_null(r.measured_s > 0, r.measured_s)},
          {"error", or_null(r.scored(), r.scored() ? r.error() : 0)},
          {"band", made ? band_json(r.band) : Json(nullptr)},
          {"predicted_peak_memory_gib", or_null(made, r.predicted_memory_gib)},
          {"comparable_peak_memory_gib", or_null(made, r.comparable_memory_gib)},
          {"measured_peak_memory_gib", or_null(r.measured_memory_gib > 0, r.measured_memory_gib)},
          {"fits", made ? Json(r.fits) : Json(nullptr)},
          {"out_of_memory", r.out_of_memory},
          {"stack", r.stack},
          {"critical_path_s", sensitivities},
          {"assumptions", r.assumptions},
          {"skipped", made ? Json(nullptr) : Json(r.skipped)}};
}

// --- Pictures ------------------------------------------------------------------------------------------------------

constexpr double kWide = 640, kHigh = 640, kMargin = 56, kLegendRow = 17;

/// The colour of a source: hues by the golden angle, so that adjacent sources in the list differ.
std::string colour_of(std::size_t index) {
  return fmt::format("hsl({:.0f} 65% 45%)", std::fmod(137.508 * static_cast<double>(index), 360));
}

/// Logarithmic scale over both axes.
class LogScale {
 public:
  explicit LogScale(const std::vector<const RowForecast*>& rows) {
    for (const RowForecast* r : rows) {
      low_ = std::min({low_, std::log10(r->measured_s), std::log10(r->predicted_s)});
      high_ = std::max({high_, std::log10(r->measured_s), std::log10(r->predicted_s)});
    }
    low_ = std::floor(low_);
    high_ = std::max(low_ + 1, std::ceil(high_));
  }
  double x(double s) const { return kMargin + at(s) * (kWide - 2 * kMargin); }
  double y(double s) const { return kHigh - kMargin - at(s) * (kHigh - 2 * kMargin); }
  int first() const { return static_cast<int>(low_); }
  int last() const { return static_cast<int>(high_); }

 private:
  double at(double s) const { return (std::log10(s) - low_) / (high_ - low_); }
  double low_ = 0;
  double high_ = 1;
};

void draw_axes(SvgCanvas& out, const LogScale& scale) {
  for (int decade = scale.first(); decade <= scale.last(); ++decade) {
    const double s = std::pow(10.0, decade);
    out.line(scale.x(s), kMargin, scale.x(s), kHigh - kMargin, "");
    out.line(kMargin, scale.y(s), kWide - kMargin, scale.y(s), "");
    out.text(scale.x(s), kHigh - kMargin + 16, fmt::format("{:g} s", s), "soft mid");
    out.text(kMargin - 6, scale.y(s) + 4, fmt::format("{:g} s", s), "soft end");
  }
  const double low = std::pow(10.0, scale.first()), high = std::pow(10.0, scale.last());
  for (const double factor : {1 / 1.1, 1.0, 1.1})
    out.line(scale.x(low), scale.y(low * factor), scale.x(high), scale.y(high * factor), factor == 1 ? "equal" : "off");
}

}  // namespace

std::string validation_page(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by,
                            const TextStyle& style) {
  std::string text = heading("Step time of every run", style) + "\n" +
                     kRows.row("", "forecast", "measured", "error %", " 90 % band, s");
  std::map<std::string, int> assumed;
  std::map<std::string, std::vector<std::string>> skipped;  // ids by reason
  for (const RowForecast& r : rows) {
    if (r.forecast_made() && !r.out_of_memory) text += row_line(r);
    for (const std::string& sentence : r.assumptions) ++assumed[sentence];
    if (!r.skipped.empty())
      skipped[r.skipped].push_back(r.id.empty() ? fmt::format("line {}", table.line(r.row)) : r.id);
  }
  text += "\n" + heading("Summary", style) + "\n";
  if (scored(rows).empty()) {
    text += "  no row could be forecast and compared\n";
  } else {
    text += summary_lines(table, rows, by);
    const Measure m = measure(scored(rows));
    text += paragraph(
        "  ",
        fmt::format("errors of the step time in percent. measure: the median absolute error of {}; mean, worst: "
                    "absolute errors; "
                    "bias: median of the signed errors; inside: runs inside their 90 % band, which is +-band wide; "
                    "errors inside a source {}",
                    m.sources == 1 ? "the only source" : fmt::format("each source, mean over {} sources", m.sources),
                    m.scatter ? fmt::format("scatter by {} %", percent_number(*m.scatter))
                              : "scatter by an unknown amount, as no source has three rows"),
        style);
    text += "\n" + heading("Memory", style) + "\n" + memory_line(rows, style);
  }
  if (!assumed.empty()) text += "\n" + heading("Assumed where the source reports nothing", style) + "\n";
  for (const auto& [sentence, count] : assumed) text += paragraph(fmt::format("  {:4} rows  ", count), sentence, style);
  if (!skipped.empty()) text += "\n" + heading("Skipped", style) + "\n";
  for (const auto& [reason, ids] : skipped)
    text += paragraph(fmt::format("  {:4} rows  ", ids.size()), reason + " (" + some_of(ids) + ")", style);
  return text;
}

std::string validation_json(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by) {
  Json list = Json::array();
  for (const RowForecast& r : rows) list.push_back(row_json(r));
  const MemorySummary m = summarise_memory(rows);
  Json out = {{"table", table.file()},
              {"rows", list},
              {"summary", summary_json(scored(rows))},
              {"memory",
               {{"rows", m.rows},
                {"mean_absolute_error", m.mean},
                {"bias", m.bias},
                {"completed", m.completed},
                {"completed_fit", m.completed_fit},
                {"out_of_memory", m.out_of_memory},
                {"out_of_memory_seen", m.out_of_memory_seen}}}};
  if (!by.empty()) {
    Json groups = Json::object();
    for (const auto& [name, group] : grouped(table, rows, by)) groups[name] = summary_json(group);
    out["by"] = by;
    out["groups"] = groups;
  }
  return json_file(out);
}

std::string scatter_svg(const std::vector<RowForecast>& rows) {
  const std::vector<const RowForecast*> points = scored(rows);
  std::map<std::string, std::size_t> sources;
  for (const RowForecast* r : points) sources.emplace(r->source, 0);
  std::size_t next = 0;
  for (auto& [source, index] : sources) index = next++;
  const LogScale scale(points);
  SvgCanvas out;
  draw_axes(out, scale);
  for (const RowForecast* r : points)
    out.add(fmt::format(
        R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}" fill-opacity="0.6"><title>{} {}</title></circle>)",
        scale.x(r->measured_s), scale.y(r->predicted_s), colour_of(sources[r->source]), markup_text(r->id),
        signed_percent_number(r->error()) + " %"));
  double y = kMargin;
  double longest = 0;
  for (const auto& [source, index] : sources) {
    out.add(fmt::format(R"(<circle cx="{:.0f}" cy="{:.0f}" r="4" fill="{}"/>)", kWide, y, colour_of(index)));
    out.text(kWide + 10, y + 4, source, "");
    longest = std::max(longest, static_cast<double>(columns(source)));
    y += kLegendRow;
  }
  out.text(kWide / 2, kHigh - 14, "measured step time", "mid");
  out.text(kMargin, kMargin - 20, "forecast step time; dashed: 10 % off", "");
  constexpr SvgStyle style{.light = "--grid:#d9dee3",
                           .dark = "--grid:#333c45",
                           .rules =
                               "line{stroke:var(--grid)}.equal{stroke:var(--soft)}"
                               ".off{stroke:var(--soft);stroke-dasharray:4 4}"};
  return out.document(kWide + 30 + 7 * longest, std::max(kHigh, y + kLegendRow), "forecast against measured step time",
                      style);
}

std::string validation_html(const CsvTable& table, const std::vector<RowForecast>& rows, const std::string& by,
                            const PageMetadata& metadata) {
  const std::string name = std::filesystem::path(table.file()).stem().string();
  return report_page("validate", fmt::format("{}: forecast and measured", name), metadata,
                     fmt::format(R"("result":{})", validation_json(table, rows, by)));
}

}  // namespace tracecast::accuracy
