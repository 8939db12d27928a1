/// \file
/// Files that a test needs.
#pragma once

#include <filesystem>
#include <string>

#include "sim/io/read_file.hpp"
#include "tests/support/results.hpp"

namespace tracecast {

/// Fails the test where the file cannot be read.
inline std::string content_of(const std::filesystem::path& path) { return value_of(read_file(path)); }

}  // namespace tracecast
