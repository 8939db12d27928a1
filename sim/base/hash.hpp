/// \file
/// A hash that is the same on every machine and in every version.
#pragma once

#include <cstdint>
#include <string_view>

namespace tracecast {

inline constexpr std::uint64_t kFnvStart = 0xcbf29ce484222325;

/// FNV-1a with 64 bits (Fowler, Noll, Vo). `hash`: that of the text before.
constexpr std::uint64_t fnv_1a(std::string_view text, std::uint64_t hash = kFnvStart) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace tracecast
