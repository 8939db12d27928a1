/// \file
/// Sequence alignment: assigns recorded kernels to the operators of a step.
///
/// Weighted longest common subsequence. Items of `found` are assigned to items of `expected` in order, so that the sum of
/// weights is maximal. Several consecutive found items may be parts of one expected item (an attention backward is three
/// kernels); the second and later parts have weight 1. If the table of all pairs would be too large, only pairs near the
/// diagonal are compared.
///
/// Source: Needleman & Wunsch 1970, with the second layer of Gotoh 1982 for the parts; band of Ukkonen 1985.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tracecast {

/// Both sequences hold class numbers; only few classes are distinct.
struct AlignmentTask {
  std::span<const std::int32_t> found;     ///< [i] class of the found item, below `weights.size()`
  std::span<const std::int32_t> expected;  ///< [i] class of the expected item, below the length of each row of weights
  std::vector<std::vector<int>> weights;   ///< [found class][expected class]; 0: cannot be the same
  std::vector<bool> joins;                 ///< [found class] may be a further part of the previous item's match
};

/// Maximum number of pairs compared; each takes one byte.
inline constexpr std::int64_t kMaxPairs = std::int64_t{1} << 28;

/// Returns the index of the expected item for each found item; -1: none. Returns nullopt if the sequences are too long or
/// differ too much in length for `most_pairs`.
std::optional<std::vector<std::int32_t>> align(const AlignmentTask& task, std::int64_t most_pairs = kMaxPairs);

}  // namespace tracecast
