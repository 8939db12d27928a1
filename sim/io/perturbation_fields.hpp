/// \file
/// Reads and names the scenario's `perturb`: slow, broken or different parts of the machine of one run.
/// Keys, ranges and messages: docs/formats/scenario.md.
#pragma once

#include <functional>
#include <string>

#include "sim/io/json_document.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// Finds and reads the profile of that name. Returns false on an error, which it reports at `key` of the reader.
using ProfileFinder =
    std::function<bool(ObjectReader& reader, const std::string& key, const std::string& name, Profile& profile)>;

/// Into scenario.perturbation and scenario.cluster.faults. The scenario's cluster has been read.
/// Errors: ranks, nodes, NICs, rails and tiers that the cluster does not have; factors and shares out of range; a host
/// without NICs or a node without GPUs; fewer GPUs than ranks.
void read_perturbation(ObjectReader& perturb, Scenario& scenario, const ProfileFinder& find_profile);

/// "37" or "64-127".
std::string to_string(const RankRange& range);

}  // namespace tracecast
