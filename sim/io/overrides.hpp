/// \file
/// --set key=value: values of a JSON document replaced before anybody reads it, so that they pass the same checks.
#pragma once

#include <string>
#include <vector>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// Applies "dotted.key=value" in order. The value is JSON where it parses as such, else a string; objects on the way to
/// the key are made where they are absent. Adds to `errors`: no '=', an empty key, a key below something that is no object.
void apply_overrides(JsonNode& root, const std::vector<std::string>& overrides, std::vector<Diagnostic>& errors);

}  // namespace tracecast
