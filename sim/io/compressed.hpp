/// \file
/// Reads files that are plain or packed with gzip. The content decides, not the file name.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "sim/base/result.hpp"

namespace tracecast {

/// Limit against decompression bombs: 1 MB of gzip may hold 1 GB of zeros. Recordings of one rank are smaller.
inline constexpr std::size_t kMaxUnpacked = std::size_t{4} << 30;

/// Returns `content` unchanged unless it starts with gzip's magic bytes; else all gzip members, unpacked and
/// concatenated.
/// Errors: a gzip file that is damaged or cut; more than `most` bytes in it.
Result<std::string> unpacked(std::string content, const std::string& file, std::size_t most = kMaxUnpacked);

/// The whole file, unpacked. Errors: those of read_file() and unpacked().
Result<std::string> read_packed(const std::filesystem::path& path);

}  // namespace tracecast
