/// \file
/// The width of a page of text.
#pragma once

#include <sstream>
#include <string>

#include "sim/report/text.hpp"

namespace tracecast::test {

/// The line with the most columns.
inline std::string longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::string longest;
  for (std::string line; std::getline(lines, line);)
    if (columns(line) > columns(longest)) longest = line;
  return longest;
}

}  // namespace tracecast::test
