/// \file
/// What a better machine or a larger batch would bring to a plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/search/capacity.hpp"

namespace tracecast {

/// A better machine or a larger batch.
struct UpgradeRule {
  std::string what;   ///< "2x NIC rate"
  std::string limit;  ///< what it relieves: compute, NICs, links between sites, NVLink, xGMI, PCIe, memory, batch, host
  std::function<void(Scenario&)> apply;
};

/// Those of the links that the cluster has, of all kinds of GPUs, of the batch and of the host.
std::vector<UpgradeRule> upgrades_of(const Cluster& cluster);

/// What one of them brings, by a new search.
struct Upgrade {
  std::string what;   ///< of its rule
  std::string limit;  ///< of its rule
  double step_time_s = 0;
  double faster_by = 0;  ///< share of the time per token that is saved
  std::string layout;    ///< the best layout, if it is another one; empty: the same
};

/// Makes the evaluator of a scenario, which must outlive it.
using EvaluatorOf = std::function<EvaluateRound(const Scenario&)>;

/// Applies each upgrade to the machine of the best candidate and searches the space again.
std::vector<Upgrade> try_upgrades(const MachineChoice& machine, const SearchSpace& space, const Evaluation& best,
                                  const SearchOptions& options, const EvaluatorOf& evaluator);

}  // namespace tracecast
