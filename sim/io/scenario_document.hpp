/// A scenario from a document that is already parsed: by an importer, say.
#pragma once

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {

/// As read_scenario of a file (files.hpp); paths in it count from the folder of document.file.
Result<Scenario> read_scenario(const JsonDocument& document, const DataPaths& data);

}  // namespace tracecast
