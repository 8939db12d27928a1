/// \file
/// Text in XML, SVG and HTML, and in JSON.
#pragma once

#include <string>
#include <string_view>

namespace tracecast {

/// `text` as content or as a value in double quotes: & < > " become entities, a line break a space.
std::string markup_text(std::string_view text);

/// `text` as a JSON string, quotes included; invalid UTF-8 is replaced.
std::string json_text(std::string_view text);

/// The text of a file with this value of nlohmann's: a member per line, invalid UTF-8 replaced, a newline at the end.
template <class Json>
std::string json_file(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tracecast
