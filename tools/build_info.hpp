/// \file
/// How this program was built, for `tracecast --version` and for results that name their maker.
#pragma once

#include <string>

namespace tracecast::cli {

/// "0.2.0"
std::string version();

/// Version, build type, compiler, and which optional parts are in it: several lines, no newline at the end.
std::string build_facts();

}  // namespace tracecast::cli
