/// \file
/// What a word without quotes is: a number, true or false, nothing, or text.
#pragma once

#include <string>

#include "sim/io/json_document.hpp"

namespace tracecast {

/// "8", "8_192", "5e8", "true", "null"; with `yaml_words` also "yes", "no", "on", "off" and "~". Everything else is text.
JsonNode plain_scalar(const std::string& text, int line, bool yaml_words);

}  // namespace tracecast
