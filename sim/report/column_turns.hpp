/// \file
/// Pictures whose columns each show one of the activities in them.
#pragma once

#include <array>
#include <cstddef>

#include "sim/base/result.hpp"

namespace tracecast {

/// Chooses the activity of each column of a row. What a column does not show of its activities is carried to the next columns that have
/// them too: along a row each gets as many columns as it has time, also where another takes most of every column.
template <std::size_t N>
class ColumnTurns {
 public:
  /// `shares`: of the next column, by activity.   Requires one above zero
  std::size_t next(const std::array<double, N>& shares) {
    constexpr double kLeast = 1e-6;  // below: rounding of times to columns
    std::size_t shown = N;
    double all = 0;
    for (std::size_t i = 0; i < N; ++i) {
      due_[i] += shares[i];
      all += shares[i];
      if (shares[i] > kLeast && (shown == N || due_[i] > due_[shown] + kLeast)) shown = i;
    }
    TRACECAST_ASSERT(shown < N, "a column has an activity");
    due_[shown] -= all;
    return shown;
  }

 private:
  std::array<double, N> due_{};  ///< columns
};

}  // namespace tracecast
