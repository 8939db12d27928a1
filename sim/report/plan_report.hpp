/// \file
/// The output of `plan`: a text page, one JSON object, and a CSV of all simulated layouts. docs/formats/plan.md
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/report/text.hpp"
#include "sim/search/capacity.hpp"
#include "sim/search/recipe.hpp"
#include "sim/search/sensitivity.hpp"
#include "sim/search/upgrades.hpp"

namespace tracecast {

struct PlanReport {
  std::string scenario;
  std::string file = {};                   ///< the scenario as the command line names it
  std::string launcher = {};               ///< that accepts all layouts; empty: any
  std::string stack_of_launcher = {};      ///< that the launcher's settings imply, where the scenario has none
  std::string failures;                    ///< failure model of the goodput; empty: no failures
  Economics economics;                     ///< behind money and energy; without a name: none
  std::vector<std::string> left_out;       ///< requested machines that are too small, a sentence each
  std::vector<std::string> hints = {};     ///< on sizes and settings, a sentence each
  std::vector<std::string> refusals = {};  ///< why machines have no layout, a sentence each
  bool complete = true;                    ///< false: stopped early, with the best so far
  CapacityPlan plan;
  std::optional<Evaluation> own;  ///< the scenario's own layout, if it is possible there
  std::size_t own_machine = 0;    ///< of plan.machines: the scenario's own, else the best candidate's
  Sensitivity sensitivity = {};
  std::vector<Upgrade> upgrades;      ///< of the best candidate's machine, most helpful first
  std::optional<RecipeTrace> recipe;  ///< on the same machine, if requested
};

/// The settings that make the scenario a candidate's run, as `predict --set` takes them.
std::vector<std::string> settings_of(const CapacityPlan& plan, const Candidate& candidate);

/// GPUs of the candidates that have no price in the assumption set, without duplicates.
std::vector<std::string> unpriced(const CapacityPlan& plan);

/// GPUs of the candidates whose power is not in the assumption set, so that their energy is unknown, without duplicates.
std::vector<std::string> without_power(const CapacityPlan& plan);

/// Keys of a scenario that the search could vary but did not: all candidates have the scenario's value, which neither the command
/// line nor a sweep gave. `plan --sweep KEY=VALUE,VALUE` searches them.
std::vector<std::string> unsearched_keys(const CapacityPlan& plan);

/// "Measured run closest to 1, 2: Llama 3 herd …, 16384 h100 (…): forecast 1.3 % too fast.": a sentence for each measured run that is
/// closest to a candidate, and for candidates whose bands are wider for other reasons.
std::vector<std::string> closest_run_sentences(const CapacityPlan& plan);

std::string plan_page(const PlanReport& report, const TextStyle& style);
/// Newline at the end.
std::string plan_json(const PlanReport& report);
/// A header, then one line per simulated layout, sorted by machine and layout number. The same search gives the same
/// bytes for any number of threads and after a restart.
std::string plan_csv(const CapacityPlan& plan);

}  // namespace tracecast
