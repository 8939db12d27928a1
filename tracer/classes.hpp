/// \file
/// Numbers for distinct values.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace tracecast {

/// Gives equal values the same number, in order of first occurrence.
template <class T>
class Classes {
 public:
  std::int32_t number(const T& value) {
    const auto [found, added] = numbers_.try_emplace(value, static_cast<std::int32_t>(values_.size()));
    if (added) values_.push_back(value);
    return found->second;
  }
  const std::vector<T>& values() const { return values_; }

 private:
  std::map<T, std::int32_t> numbers_;
  std::vector<T> values_;
};

}  // namespace tracecast
