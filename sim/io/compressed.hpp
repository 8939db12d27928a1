/// \file
/// Files as they are handed around: plain, or packed with gzip whatever their name says.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "sim/base/result.hpp"

namespace tracecast {

/// More than any recording of one rank; what unpacks to more is refused, since 1 MB of gzip may hold 1 GB of nothing.
inline constexpr std::size_t kMostUnpacked = std::size_t{4} << 30;

/// `content` itself when it does not begin as gzip files do; else what is packed in it (all members, one after the other).
/// Errors: a gzip file that is damaged or cut; more than `most` bytes in it.
Result<std::string> unpacked(std::string content, const std::string& file, std::size_t most = kMostUnpacked);

/// The whole file, unpacked. Errors: cannot be read; those of unpacked().
Result<std::string> read_packed(const std::filesystem::path& path);

}  // namespace tracecast
