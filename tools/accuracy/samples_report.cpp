#include "tools/accuracy/samples_report.hpp"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "tools/accuracy/percent.hpp"

namespace tracecast::accuracy {
namespace {

using Json = nlohmann::ordered_json;

std::string mean_text(const MeanError& error) { return error.samples > 0 ? percent_number(error.mean) : ""; }

/// "gemm 1.29, included"
std::string factor_text(const SampleErrors& e) {
  return e.factor.empty()
             ? ""
             : fmt::format("{} {:.3g}{}", e.factor, e.in_training, e.with_factor ? ", included" : ", left out");
}

std::map<std::string, int> skipped_samples(const std::vector<MeasuredSample>& samples) {
  std::map<std::string, int> skipped;
  for (const MeasuredSample& sample : samples)
    if (!sample.skipped.empty()) ++skipped[sample.skipped];
  return skipped;
}

}  // namespace

std::string samples_page(const std::vector<MeasuredSample>& samples, bool collectives, const TextStyle& style) {
  const int width = collectives ? 40 : 33;  // of a group's name
  std::string text = heading(collectives ? "Collectives above 1 MiB" : "Operators", style) + "\n";
  const TextTable table({-width, 7, 6, 6, 6, 8, 6});
  text += table.row("percent", "samples", "mean", "median", "bias", collectives ? "" : "held out",
                    collectives ? "" : "large");
  std::string excluded;
  std::map<std::string, std::string> factors;
  for (const SampleErrors& e : sample_errors(samples, collectives)) {
    if (e.excluded != excluded) text += paragraph("  Shown, not counted: ", e.excluded, style);
    excluded = e.excluded;
    text +=
        table.row(e.group, e.samples, percent_number(e.mean), percent_number(e.median), signed_percent_number(e.bias),
                  collectives ? "" : mean_text(e.held_out), collectives ? "" : mean_text(e.large));
    if (!e.factor.empty()) factors[e.group] = factor_text(e);
  }
  if (!factors.empty())
    text += "\n" + heading("In-training factors: in_training x the clock of a sustained load", style) + "\n";
  for (const auto& [group, factor] : factors) text += table.row(group, factor);
  for (const auto& [reason, count] : skipped_samples(samples)) text += fmt::format("  {} skipped: {}\n", count, reason);
  return text;
}

std::string samples_markdown(const std::vector<MeasuredSample>& samples, bool collectives) {
  std::string text = collectives
                         ? "| group | sizes | mean | median | bias |\n| --- | ---: | ---: | ---: | ---: |\n"
                         : "| group | samples | mean | median | bias | held out | of those, large | in-training "
                           "factor |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n";
  for (const SampleErrors& e : sample_errors(samples, collectives)) {
    const std::string name = e.excluded.empty() ? e.group : fmt::format("{} ({}: not counted)", e.group, e.excluded);
    text += fmt::format("| {} | {} | {} | {} | {:+.1f} |", name, e.samples, percent_number(e.mean),
                        percent_number(e.median), 100 * e.bias);
    if (!collectives) text += fmt::format(" {} | {} | {} |", mean_text(e.held_out), mean_text(e.large), factor_text(e));
    text += "\n";
  }
  return text;
}

std::string samples_json(const std::vector<std::string>& files, const std::vector<MeasuredSample>& samples) {
  Json rows = Json::array();
  for (const MeasuredSample& s : samples)
    rows.push_back({{"table", s.table},
                    {"line", s.line},
                    {"group", s.group},
                    {"predicted_us", s.skipped.empty() ? Json(1e6 * s.predicted_s) : Json(nullptr)},
                    {"measured_us", 1e6 * s.measured_s},
                    {"error", s.skipped.empty() ? Json(s.error()) : Json(nullptr)},
                    {"held_out", s.held_out},
                    {"large", s.large},
                    {"not_counted", s.excluded.empty() ? Json(nullptr) : Json(s.excluded)},
                    {"skipped", s.skipped.empty() ? Json(nullptr) : Json(s.skipped)}});
  Json groups = Json::array();
  for (const SampleErrors& e : sample_errors(samples, false))
    groups.push_back({{"group", e.group},
                      {"samples", e.samples},
                      {"mean", e.mean},
                      {"median", e.median},
                      {"bias", e.bias},
                      {"held_out", {{"samples", e.held_out.samples}, {"mean", e.held_out.mean}}},
                      {"large", {{"samples", e.large.samples}, {"mean", e.large.mean}}},
                      {"in_training_factor", e.factor.empty() ? Json(nullptr) : Json(e.factor)},
                      {"in_training", e.in_training},
                      {"factor_included", e.with_factor},
                      {"not_counted", e.excluded.empty() ? Json(nullptr) : Json(e.excluded)}});
  return json_file(Json{{"tables", files}, {"rows", rows}, {"groups", groups}});
}

}  // namespace tracecast::accuracy
