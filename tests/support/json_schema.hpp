/// A validator of the part of JSON Schema (draft 2020-12) that docs/schema uses.
///
/// Keywords: type, enum, const, properties, required, additionalProperties, items, minItems, minimum, maximum,
/// exclusiveMinimum, pattern, oneOf, anyOf, $ref to "#/$defs/name" or to another file of the folder; the annotations
/// $schema, $defs, title, description, default, examples. Any other keyword is itself a violation, so that a schema
/// cannot ask for something that nobody checks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tracecast {

/// What is wrong with the JSON text `instance`, as "/path/to/value: sentence"; empty when it fits.
std::vector<std::string> schema_violations(const std::filesystem::path& schema_file, const std::string& instance);

/// The names under "properties" at `pointer` of a schema file ("" for its root, "/properties/parallel" …), sorted.
std::vector<std::string> schema_properties(const std::filesystem::path& schema_file, const std::string& pointer);

}  // namespace tracecast
