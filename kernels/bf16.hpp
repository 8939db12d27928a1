/// \file
/// bfloat16 as bits: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace tracecast {

/// Rounds to nearest even; NaN stays NaN.
inline std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

inline float float_of_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace tracecast
