/// \file
/// Reads a scenario from a parsed document (importers use this), and a topology with some values replaced.
#pragma once

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {

/// Reads the file that a scenario names as its topology. Adds to `notes` what was assumed.
using TopologyReader = Result<Cluster> (*)(const std::filesystem::path& path, std::vector<std::string>* notes);

/// Like read_scenario of a file (files.hpp); relative paths start at the folder of document.file.
/// `read_machine`: null: files of the project only.
Result<Scenario> read_scenario(const JsonDocument& document, const DataPaths& data,
                               TopologyReader read_machine = nullptr);
Result<Scenario> read_scenario(const std::filesystem::path& path, const DataPaths& data,
                               const std::vector<std::string>& overrides, TopologyReader read_machine);

/// `overrides`: "key=value" as --set has them, of the topology's own keys: "node.nic.count=4".
Result<Cluster> read_topology(const std::filesystem::path& path, const std::vector<std::string>& overrides);

}  // namespace tracecast
