/// \file
/// Colours of a refinement: 64-bit hashes that stand for classes until they are checked exactly.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tracecast {

using ClassColour = std::uint64_t;

/// Spreads the bits (the finaliser of splitmix64, Steele et al. 2014).
constexpr ClassColour mix(ClassColour x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
constexpr ClassColour combine(ClassColour a, ClassColour b) { return mix(a * 0x9e3779b97f4a7c15 + b); }

/// Classes of equal colours, numbered in the order in which they come up first.
inline std::vector<std::int32_t> number(const std::vector<ClassColour>& colours, std::int32_t& count) {
  std::unordered_map<ClassColour, std::int32_t> known;
  std::vector<std::int32_t> numbers(colours.size());
  for (std::size_t i = 0; i < colours.size(); ++i)
    numbers[i] = known.try_emplace(colours[i], static_cast<std::int32_t>(known.size())).first->second;
  count = static_cast<std::int32_t>(known.size());
  return numbers;
}

}  // namespace tracecast
