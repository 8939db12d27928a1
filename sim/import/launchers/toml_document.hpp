/// \file
/// TOML as the tree that our JSON readers take, with the line of every value. Dates become text.
#pragma once

#include <string>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// Errors: syntax with its line (keys given twice count as such); nested deeper than 100; nothing in it.
Result<JsonDocument> parse_toml(const std::string& text, const std::string& file);

}  // namespace tracecast
