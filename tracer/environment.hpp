/// \file
/// Environment variables that the recorder reads.
#pragma once

#include <cstdlib>
#include <string>

namespace tracecast {

/// The value of an environment variable; "" if it is not set.
inline std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? "" : text;
}

}  // namespace tracecast
