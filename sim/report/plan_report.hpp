/// \file
/// What `plan` says: a page, one JSON object, and a CSV of every layout that was simulated. docs/formats/plan.md
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/report/text.hpp"
#include "sim/search/capacity.hpp"
#include "sim/search/recipe.hpp"

namespace tracecast {

struct PlanReport {
  std::string scenario;
  std::string failures;               ///< failure model behind the goodput; empty: none
  std::string economics;              ///< assumption set behind money and energy
  std::vector<std::string> left_out;  ///< machines that were asked for and are too small, a sentence each
  CapacityPlan plan;
  std::optional<Evaluation>
      own;  ///< the scenario's layout as it is, on the best candidate's machine, where it can be had
  std::vector<Upgrade> upgrades;      ///< of the best candidate's machine, most helpful first
  std::optional<RecipeTrace> recipe;  ///< on the same machine, when asked for
};

/// GPUs among the candidates of which the assumption set has no price, each once.
std::vector<std::string> unpriced(const CapacityPlan& plan);

std::string plan_page(const PlanReport& report, const TextStyle& style);
/// Newline at the end.
std::string plan_json(const PlanReport& report);
/// A header, then one line for each simulated layout, by machine and number of the layout. The same bytes for the same
/// search, however it was run.
std::string plan_csv(const CapacityPlan& plan);

}  // namespace tracecast
