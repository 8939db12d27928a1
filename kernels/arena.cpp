#include "kernels/arena.hpp"

#include <cstdint>

#include "sim/base/result.hpp"

namespace tracecast {

Arena::Arena(std::int64_t floats, bool random, std::uint64_t seed) : memory_(static_cast<std::size_t>(floats + kLine)) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float);
  aligned_ = (kLine - static_cast<std::int64_t>(address % kLine)) % kLine;
  if (!random) return;
  // A linear congruential generator (Knuth's MMIX constants): fast, since megabytes must be filled before timing starts.
  std::uint64_t state = seed;
  for (float& value : memory_) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
  }
}

float* Arena::take(std::int64_t count) {
  TRACECAST_ASSERT(count <= size(), "the operand must fit into the arena");
  if (next_ + count > size()) next_ = 0;
  float* const place = memory_.data() + aligned_ + next_;
  next_ += (count + kLine - 1) / kLine * kLine;
  return place;
}

}  // namespace tracecast
