/// \file
/// Build information for `tracecast --version` and for the metadata of results.
#pragma once

#include <string>

namespace tracecast::cli {

/// "0.2.0"
std::string version();

/// Version, build type, compiler and optional parts: several lines, without a newline at the end.
std::string build_facts();

}  // namespace tracecast::cli
