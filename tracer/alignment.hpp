/// \file
/// Two sequences laid beside each other: which recorded kernel is which operator of the step.
///
/// A longest common subsequence with weights. Items of `found` are assigned to items of `expected` in order, so that the
/// sum of weights is the largest; several found items in a row may be parts of one expected item (a backward of attention
/// is three kernels), the second and later ones for a weight of 1. Where a table of all pairs would not fit, only pairs
/// near the diagonal are looked at.
///
/// Source: Needleman & Wunsch 1970, with the second layer of Gotoh 1982 for the parts; band of Ukkonen 1985.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tracecast {

/// Items by what can be told of them: both sequences hold numbers of classes, few of them distinct.
struct AlignmentTask {
  std::span<const std::int32_t> found;     ///< [i] class of the found item, below `weights.size()`
  std::span<const std::int32_t> expected;  ///< [i] class of the expected item, below the length of each row of weights
  std::vector<std::vector<int>> weights;   ///< [found class][expected class]; 0: cannot be the same
  std::vector<bool> joins;                 ///< [found class] may be a further part of what the one before it is of
};

/// Pairs that are looked at, at most: a byte of memory each.
inline constexpr std::int64_t kMostPairs = std::int64_t{1} << 28;

/// For each found item the index of the expected one; -1: none. Empty: the sequences are too long or too different in
/// length for `most_pairs`.
std::optional<std::vector<std::int32_t>> align(const AlignmentTask& task, std::int64_t most_pairs = kMostPairs);

}  // namespace tracecast
