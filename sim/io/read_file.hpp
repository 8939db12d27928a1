/// \file
/// Reads whole files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "sim/base/result.hpp"

namespace tracecast {

/// Limit for files: recordings of one rank are smaller.
inline constexpr std::size_t kMaxFile = std::size_t{4} << 30;
/// Limit for files that are written by hand or by this program. Parsed, they take up to ten times as much memory.
inline constexpr std::size_t kMaxOwnFile = std::size_t{256} << 20;

/// The bytes of a file, or of a pipe up to its end.
/// Errors: does not exist; a folder or a device; cannot be read, with the system's reason; more than `most` bytes.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t most = kMaxFile);

}  // namespace tracecast
