/// \file
/// A recording of another profiler as a trace. What a trace cannot hold is counted in `notes`. Environment variables, command
/// lines, host names and user names are not copied.   docs/formats/recordings.md
/// Source: docs/references.md#format-kineto, docs/references.md#format-nsight
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/io/trace.hpp"

namespace tracecast {

struct ImportedTrace {
  std::string format;  ///< its title
  Trace trace;
  std::vector<std::pair<std::string, std::int64_t>> found;  ///< {"kernels", 245}, …
  std::vector<std::string> notes;                           ///< what was left out or repaired
};

}  // namespace tracecast
