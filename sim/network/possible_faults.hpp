/// \file
/// Network faults that a machine cannot have: of NICs or tiers that it has not, or of all NICs of a host, which could not be part of
/// a job over several nodes.
#pragma once

#include <vector>

#include "sim/network/cluster.hpp"

namespace tracecast {

/// By their keys in `perturb` of a scenario: "lost_rails", "slow_nic", "lost_uplinks", "missing_gpus".
std::vector<ImpossibleValue> impossible_faults(const Cluster& cluster);

}  // namespace tracecast
