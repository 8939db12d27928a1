/// \file
/// Who made a web page and how to make it again: at the end of every page.
#pragma once

#include <string>

namespace tracecast {

struct PageFacts {
  std::string command;  ///< as typed: "tracecast predict llama3-405b-16k --html report.html"
  std::string version;
};

}  // namespace tracecast
