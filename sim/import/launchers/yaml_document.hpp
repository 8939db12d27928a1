/// \file
/// YAML as the tree that our JSON readers take, with the line of every value.
///
/// Plain scalars become what YAML 1.2 says they are (null, true, false, numbers), and so do yes, no, on and off, which
/// launchers write; quoted ones stay text. Anchors are followed; merge keys (<<) are not.
#pragma once

#include <string>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// Errors: syntax with its line; a key that is given twice or is no scalar; nested deeper than 100; more than 100,000 values
/// (anchors can multiply); nothing in it.
Result<JsonDocument> parse_yaml(const std::string& text, const std::string& file);

}  // namespace tracecast
