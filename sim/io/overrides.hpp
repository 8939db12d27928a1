/// \file
/// --set key=value: replaces values of a JSON document before it is read, so that they pass the same checks.
#pragma once

#include <string>
#include <vector>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// The member `key` of an object, made (an empty object, as from the command line) when it is absent.
JsonNode& member_of(JsonNode& object, const std::string& key);

/// Applies "dotted.key=value" in order. A value that does not parse as JSON is a string. Missing objects on the path to
/// the key are created. A part of the key below a list is an index or the member "name" of an item:
/// "fabric.tiers.leaf.oversubscription". Adds to `errors`: no '=', an empty key, a key below a value that is neither an
/// object nor a list, an item that the list does not have.
void apply_overrides(JsonNode& root, const std::vector<std::string>& overrides, std::vector<Diagnostic>& errors);

}  // namespace tracecast
