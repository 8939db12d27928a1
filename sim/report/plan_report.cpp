#include "sim/report/plan_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/report/evidence_page.hpp"
#include "sim/search/space.hpp"

namespace tracecast {
namespace {

/// GPUs of the candidates without what `known` asks for.
std::vector<std::string> gpus_without(const CapacityPlan& plan, bool (*known)(const Candidate&)) {
  std::vector<std::string> names;
  for (const Candidate& candidate : plan.candidates) {
    if (!candidate.facts.why_no_days.empty()) continue;  // nor is anything known of its money and energy
    const std::string gpu = gpus_text(choice_of(plan, candidate).scenario);
    if (!known(candidate) && std::ranges::find(names, gpu) == names.end()) names.push_back(gpu);
  }
  return names;
}

}  // namespace

std::vector<std::string> settings_of(const CapacityPlan& plan, const Candidate& candidate) {
  const MachineChoice& machine = choice_of(plan, candidate);
  std::vector<std::string> settings = machine.overrides;
  const std::vector<std::string> of_layout = layout_settings(machine.scenario, candidate.evaluation.layout);
  settings.insert(settings.end(), of_layout.begin(), of_layout.end());
  return settings;
}

std::vector<std::string> unpriced(const CapacityPlan& plan) {
  return gpus_without(plan, [](const Candidate& candidate) { return candidate.usd_per_million_tokens.has_value(); });
}

std::vector<std::string> without_power(const CapacityPlan& plan) {
  return gpus_without(plan, [](const Candidate& candidate) { return candidate.energy_mwh.has_value(); });
}

std::vector<std::string> unsearched_keys(const CapacityPlan& plan) {
  std::vector<std::string> keys = {"training.dtype", "training.recompute_modules", "parallel.shard_group",
                                   "parallel.rank_order"};
  const auto has_experts = [](const MachineOutcome& machine) { return machine.choice.scenario.model.moe.has_value(); };
  if (std::ranges::any_of(plan.machines, has_experts))
    keys.insert(keys.end(), {"parallel.etp", "parallel.moe_dispatcher"});
  const auto varied = [&](const std::string& key) {
    return std::ranges::any_of(plan.machines, [&](const MachineOutcome& machine) {
      return machine.searched.contains(key) ||
             std::ranges::any_of(machine.choice.overrides,
                                 [&](const std::string& setting) { return setting.starts_with(key + "="); });
    });
  };
  std::erase_if(keys, varied);
  return keys;
}

std::vector<std::string> closest_run_sentences(const CapacityPlan& plan) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> runs;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    const Candidate& each = plan.candidates[i];
    std::string run = closest_run_text(with_layout(choice_of(plan, each).scenario, each.evaluation.layout));
    const auto known = std::ranges::find(runs, run, &std::pair<std::string, std::vector<std::size_t>>::first);
    if (known != runs.end())
      known->second.push_back(i + 1);
    else
      runs.emplace_back(std::move(run), std::vector{i + 1});
  }
  std::vector<std::string> sentences;
  for (const auto& [run, numbers] : runs)
    sentences.push_back(fmt::format("Measured run closest to {}: {}.", fmt::join(numbers, ", "), run));
  return sentences;
}

}  // namespace tracecast
