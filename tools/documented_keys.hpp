/// \file
/// The parts of docs/ that follow from the tables of keys (sim/io/fields.hpp): JSON Schemas and key tables.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace tracecast::cli {

/// [path below docs/] what the file must contain. Pages keep what is outside of "<!-- keys of NAME -->" and "<!-- end of keys -->".
std::map<std::string, std::string> documented_keys(const std::filesystem::path& docs);

}  // namespace tracecast::cli
