#include "sim/report/evidence_page.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/forecast/evidence.hpp"
#include "sim/report/text.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kListed = 8;

/// "; the band is wider, since no run of this kind on Volta was measured"; "" if nothing is new.
std::string novelty_text(const Scenario& scenario) {
  const Novelty novelty = novelty_of(scenario);
  const char* kind = novelty.experts ? "with experts" : "without experts";
  std::vector<std::string> reasons;
  if (novelty.architecture)
    reasons.push_back(fmt::format("no run {} on {} was measured", kind, scenario.profile.architecture));
  if (novelty.stack)
    reasons.push_back(scenario.stack.empty() ? "the scenario names no stack"
                                             : fmt::format("no run {} with {} was measured", kind, scenario.stack));
  return reasons.empty() ? "" : fmt::format("; the band is wider, since {}", fmt::join(reasons, " and "));
}

}  // namespace

std::string error_text(double error) {
  return fmt::format("{} too {}", percent(std::abs(error)), error < 0 ? "fast" : "slow");
}

std::string closest_run_text(const Scenario& scenario) {
  const std::vector<Likeness> closest = closest_runs(scenario, 1);
  if (closest.empty()) return "none";
  const MeasuredRun& run = *closest.front().run;
  return fmt::format("{}, {} {} ({}): forecast {}, fitted without this source", run.source, run.ranks, run.gpu, run.id,
                     error_text(run.error)) +
         novelty_text(scenario);
}

std::string evidence_page(const Scenario& scenario) {
  const TextStyle narrow{.width = 60};
  std::string text = paragraph(
      "",
      "The measured runs that are closest to this one, and the error of their forecasts without their source:", narrow);
  text += fmt::format("\n  {:<24} {:>8} {:>11} {:>10}\n", "run", "distance", "measured", "error");
  for (const auto& [run, distance] : closest_runs(scenario, kListed)) {
    text +=
        fmt::format("  {:<24} {:>8.1f} {:>9.4g} s {:>+8.1f} %\n", run->id, distance, run->measured_s, 100 * run->error);
    text += paragraph("    ", fmt::format("{} {}, {}, {}", run->ranks, run->gpu, run->precision, run->source), narrow);
  }
  const Novelty novelty = novelty_of(scenario);
  return text + "\n" +
         paragraph("",
                   fmt::format("Part of the 90 % band for runs like this one: {:.1f} % of {} models{}{}.",
                               100 * kRunBand.half_width(novelty, 0), novelty.experts ? "expert" : "dense",
                               novelty.architecture
                                   ? fmt::format(", none of them measured on {}", scenario.profile.architecture)
                                   : "",
                               novelty.stack
                                   ? (scenario.stack.empty() ? std::string(", no stack given")
                                                             : fmt::format(", none measured with {}", scenario.stack))
                                   : ""),
                   narrow);
}

std::string evidence_json(const Scenario& scenario) {
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const auto& [run, distance] : closest_runs(scenario, kListed))
    runs.push_back({{"id", run->id},
                    {"source", run->source},
                    {"distance", distance},
                    {"gpu", run->gpu},
                    {"ranks", run->ranks},
                    {"stack", run->stack},
                    {"precision", run->precision},
                    {"measured_s", run->measured_s},
                    {"error", run->error}});
  const Novelty novelty = novelty_of(scenario);
  return nlohmann::ordered_json{{"closest_runs", std::move(runs)},
                                {"architecture_measured", !novelty.architecture},
                                {"stack_measured", !novelty.stack},
                                {"half_width_of_runs", kRunBand.half_width(novelty, 0)}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

}  // namespace tracecast
