/// \file
/// Metadata at the end of every web page: the program version and the command that reproduces the page.
#pragma once

#include <string>

namespace tracecast {

struct PageMetadata {
  std::string command;  ///< as typed: "tracecast predict llama3-405b-16k --html report.html"
  std::string version;
};

}  // namespace tracecast
