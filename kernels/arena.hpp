/// \file
/// A ring of memory for operands, so that operators miss the cache as they do in a training step.
///
/// A training step touches each weight and each kept activation once, then all the others. If a kernel is repeated on the
/// same buffers, its operands stay in the cache instead. A ring larger than the caches gives every call the least recently
/// used memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracecast {

class Arena {
 public:
  /// `floats`: size of the ring. `random`: filled with values in [-1, 1), else with zeros.
  Arena(std::int64_t floats, bool random, std::uint64_t seed = 1);

  /// The next `count` floats, 64-byte aligned, with the contents of their last use.
  /// Requires count <= size().
  float* take(std::int64_t count);
  std::int64_t size() const { return static_cast<std::int64_t>(memory_.size()) - kLine; }

 private:
  static constexpr std::int64_t kLine = 16;  ///< floats per cache line
  std::vector<float> memory_;
  std::int64_t aligned_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace tracecast
