/// \file
/// A scenario from a document that is already parsed: by an importer, say; and a topology with values replaced.
#pragma once

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {

/// As read_scenario of a file (files.hpp); paths in it count from the folder of document.file.
Result<Scenario> read_scenario(const JsonDocument& document, const DataPaths& data);

/// `overrides`: "key=value" as --set has them, of the topology's own keys: "node.nic.count=4".
Result<Cluster> read_topology(const std::filesystem::path& path, const std::vector<std::string>& overrides);

}  // namespace tracecast
