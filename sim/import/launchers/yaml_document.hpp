/// \file
/// YAML as the tree that our JSON readers take, with the line of every value.
///
/// Plain scalars become what YAML 1.2 says they are (null, true, false, numbers), and so do yes, no, on and off, which
/// launchers write; quoted ones stay text. Anchors are followed, and merge keys (<<) as PyYAML does:
/// own keys win, then those of the first map in the list. A section of the file's top level that is there to be merged is left out, if it is
/// named so (x-…, .…, _…, common, base, defaults).
#pragma once

#include <string>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// Errors: syntax with its line; a key that is given twice or is no scalar; a merge of something other than maps; nested deeper than 100; more than 100,000 values
/// (anchors can multiply); nothing in it.
Result<JsonDocument> parse_yaml(const std::string& text, const std::string& file);

}  // namespace tracecast
