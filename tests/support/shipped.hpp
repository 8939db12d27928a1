/// What the repository ships: its data, and its scenarios by name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/io/files.hpp"

namespace tracecast {

/// scenarios, topologies and kernels/profiles of the source tree.
DataPaths shipped_data();

/// Files of the scenarios in these folders of scenarios/, sorted.
std::vector<std::filesystem::path> shipped_scenarios(const std::vector<std::string>& folders = {
                                                         "published", "case_studies", "teaching"});

/// "llama3-405b-16k" finds scenarios/**/llama3-405b-16k.json.
/// Throws the reader's error where the name is unknown or the scenario, with its overrides, is refused.
Scenario shipped_scenario(const std::string& name, const std::vector<std::string>& overrides = {});

/// The same for a model of scenarios/models, a machine and a profile: "llama-3.1-8b", "dgx-h100", "h100".
Model shipped_model(const std::string& name);
Cluster shipped_topology(const std::string& name);
Profile shipped_profile(const std::string& name);

}  // namespace tracecast
