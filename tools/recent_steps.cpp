#include "tools/recent_steps.hpp"

#include <utility>

#include "sim/forecast/other_speeds.hpp"
#include "sim/io/files.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast::cli {
namespace {

constexpr std::size_t kMostSteps = 8;  ///< the values of a slider

std::string settings_of(Scenario scenario, const std::string& machine) {
  scenario.perturbation.slow_ranks.clear();
  return scenario.name + "\n" + to_json(scenario) + machine;
}

/// Also what the text of a scenario has only by name.
bool same_files(const Scenario& a, const Scenario& b) {
  return a.profile == b.profile && a.parallel == b.parallel && a.training == b.training &&
         a.perturbation.gpus == b.perturbation.gpus;
}

}  // namespace

Result<const ForecastRun*> RecentSteps::forecast(const Scenario& scenario, const std::string& machine) {
  std::string settings = settings_of(scenario, machine);
  const ForecastRun* alike = nullptr;
  for (auto step = latest_first_.begin(); step != latest_first_.end(); ++step) {
    if (step->settings != settings || !same_files(step->scenario, scenario)) continue;
    if (step->scenario.perturbation == scenario.perturbation) {
      latest_first_.splice(latest_first_.begin(), latest_first_, step);
      return &step->run;
    }
    if (slow_alike(step->scenario.perturbation, scenario.perturbation)) alike = &step->run;
  }
  if (averages_parameters(scenario.parallel) || scenario.training.documents) alike = nullptr;
  Result<ForecastRun> run = alike != nullptr ? forecast_like(scenario, *alike) : tracecast::forecast(scenario);
  if (!run) return tl::unexpected(std::move(run.error()));
  latest_first_.push_front({std::move(settings), scenario, std::move(*run)});
  if (latest_first_.size() > kMostSteps) latest_first_.pop_back();
  return &latest_first_.front().run;
}

}  // namespace tracecast::cli
