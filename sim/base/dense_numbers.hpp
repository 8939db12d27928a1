/// \file
/// Numbers of distinct values, in the order in which they come: a flat hash table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tracecast {

template <class Value>
class DenseNumbers {
 public:
  /// The number of a value, a new one for a new value.   Requires a hash whose low bits are spread well
  std::int32_t number(const Value& value, std::uint64_t hash) {
    if (2 * values_.size() >= slots_.size()) grow();
    std::size_t slot = hash & (slots_.size() - 1);
    while (slots_[slot] >= 0) {
      if (values_[static_cast<std::size_t>(slots_[slot])] == value) return slots_[slot];
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = count();
    values_.push_back(value);
    hashes_.push_back(hash);
    return slots_[slot];
  }
  std::int32_t count() const { return static_cast<std::int32_t>(values_.size()); }

 private:
  void grow() {
    slots_.assign(std::max<std::size_t>(64, 4 * slots_.size()), -1);
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      std::size_t slot = hashes_[i] & (slots_.size() - 1);
      while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<std::int32_t>(i);
    }
  }

  std::vector<Value> values_;          ///< [number]
  std::vector<std::uint64_t> hashes_;  ///< [number]
  std::vector<std::int32_t> slots_;    ///< a power of two of numbers; -1: free
};

}  // namespace tracecast
