#include "sim/report/diagnosis_report.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/words.hpp"
#include "sim/report/svg.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kShown = 6;

/// "16.0 s, 8.2 % more than the forecast of 14.8 s (90 %: 13.1 to 16.7 s)".
std::string measured_text(const Diagnosis& d) {
  const double change = d.measured_s / d.forecast_s - 1;
  return fmt::format("{}, {} {} than the forecast of {} (90 %: {} to {})", time_text(d.measured_s),
                     percent(std::abs(change)), change < 0 ? "less" : "more", time_text(d.forecast_s),
                     time_text(d.band.p5_s), time_text(d.band.p95_s));
}

std::string evidence_text(const Diagnosis& d) {
  if (d.ranks_known == 0) return "the step time alone: likelihoods say which sizes are usual, not what happened";
  return fmt::format("the step time, and where the time of {} rank{} went", d.ranks_known, plural(d.ranks_known));
}

std::string answer(const Diagnosis& d) {
  if (d.measured_s <= d.forecast_s) return "The run is not slower than its forecast.";
  const std::span likeliest = std::span(d.causes).first(static_cast<std::size_t>(d.indistinguishable));
  if (std::ranges::none_of(likeliest, &DiagnosedCause::explains))
    return fmt::format("None of the causes explains the measured step. The likeliest one, {}, takes {}.",
                       d.causes.front().what, time_text(d.causes.front().step_s));
  if (d.indistinguishable == 1) return fmt::format("Most likely {}.", d.causes.front().what);
  return fmt::format("The evidence does not tell the first {} causes apart; give a recording or a timeline of the run.",
                     d.indistinguishable);
}

}  // namespace

std::string diagnosis_page(const std::string& scenario, const Diagnosis& d, const TextStyle& style) {
  std::string text = heading("Diagnosis of " + scenario, style) + "\n";
  text += paragraph("  measured  ", measured_text(d), style);
  text += paragraph("  evidence  ", evidence_text(d), style);
  text += "\n" + paragraph("  ", answer(d), style);
  text += "\n  likelihood  step s  cause, with the size that explains the measured time\n";
  const std::span shown = std::span(d.causes).first(std::min(kShown, d.causes.size()));
  for (const DiagnosedCause& cause : shown) {
    const std::string first = fmt::format("  {:>8}  {:>8}  ", percent(cause.likelihood), number(cause.step_s));
    text += paragraph(first, cause.what, style);
    text += paragraph(std::string(first.size(), ' '), "check: " + cause.check, style);
  }
  if (std::ranges::any_of(shown, [&](const DiagnosedCause& each) { return each.step_s < 0.99 * d.measured_s; }))
    text +=
        "\n" + paragraph("  ",
                         "A cause whose step s is below the measured time explains a part of the difference only: it "
                         "has no size, or this is the largest that is plausible.",
                         style);
  return text;
}

std::string diagnosis_json(const std::string& scenario, const Diagnosis& d) {
  nlohmann::ordered_json out{{"scenario", scenario},
                             {"measured_s", d.measured_s},
                             {"forecast_s", d.forecast_s},
                             {"band", {{"p5_s", d.band.p5_s}, {"p50_s", d.band.p50_s}, {"p95_s", d.band.p95_s}}},
                             {"ranks_known", d.ranks_known},
                             {"indistinguishable", d.indistinguishable}};
  for (const DiagnosedCause& cause : d.causes)
    out["causes"].push_back({{"cause", cause.name},
                             {"what", cause.what},
                             {"size", cause.size},
                             {"step_s", cause.step_s},
                             {"explains", cause.explains},
                             {"misfit", cause.misfit},
                             {"likelihood", cause.likelihood},
                             {"check", cause.check}});
  return out.dump(2) + "\n";
}

std::string diagnosis_svg(const std::string& scenario, const Diagnosis& d) {
  constexpr double kWidth = 820, kLeft = 84, kBar = 180, kRow = 28;
  constexpr SvgStyle kStyle{.light = "--bar:#2a6fb0;--rest:#d9dee3",
                            .dark = "--bar:#77aadd;--rest:#333c45",
                            .rules = ".bar{fill:var(--bar)}.rest{fill:var(--rest)}"};
  SvgCanvas picture;
  picture.text(16, 28, "Diagnosis of " + scenario, "title");
  picture.text(16, 48, measured_text(d), "soft");
  double y = 82;
  for (std::size_t i = 0; i < std::min(kShown, d.causes.size()); ++i, y += kRow) {
    const DiagnosedCause& cause = d.causes[i];
    picture.text(kLeft - 10, y, percent(cause.likelihood), "end");
    picture.rect(kLeft, y - 12, kBar, 15, R"(class="rest")", cause.check);
    picture.rect(kLeft, y - 12, std::max(1.0, kBar * cause.likelihood), 15, R"(class="bar")", cause.check);
    picture.text(kLeft + kBar + 12, y, cause.what, i < static_cast<std::size_t>(d.indistinguishable) ? "" : "soft");
  }
  return picture.document(kWidth, y, "Diagnosis of " + scenario, kStyle);
}

}  // namespace tracecast
