/// \file
/// What importers recognise their files by. Looks at the first 64 KiB, so that recordings of a gigabyte cost nothing.
/// Contents have no byte order mark: read_packed() takes it off.
#pragma once

#include <string_view>

namespace tracecast {

/// `part` occurs near the beginning of the file.
bool head_contains(std::string_view content, std::string_view part);

/// That is not blank; '\0': all are.
char first_character(std::string_view content);

/// The first character that is not blank is '{'.
bool is_json_object(std::string_view content);

/// The outermost JSON object has this key near the beginning of the file.
bool has_key(std::string_view content, std::string_view key);

/// The first XML element, comments and declarations skipped, is called `name`.
bool has_root(std::string_view content, std::string_view name);

}  // namespace tracecast
