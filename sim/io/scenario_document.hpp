/// \file
/// Reads a scenario from a parsed document (importers use this), and a topology with some values replaced.
#pragma once

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {

/// Like read_scenario of a file (files.hpp); relative paths start at the folder of document.file.
Result<Scenario> read_scenario(const JsonDocument& document, const DataPaths& data);

/// `overrides`: "key=value" as --set has them, of the topology's own keys: "node.nic.count=4".
Result<Cluster> read_topology(const std::filesystem::path& path, const std::vector<std::string>& overrides);

}  // namespace tracecast
