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
/// Throws the reader's sentence where the name is unknown or the scenario, with its overrides, is refused.
Scenario shipped_scenario(const std::string& name, const std::vector<std::string>& overrides = {});

}  // namespace tracecast
