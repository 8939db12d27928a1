/// The table of algorithms.
#include "sim/network/algorithms/algorithm.hpp"

#include <array>

#include "sim/base/result.hpp"

namespace tracecast {

std::span<const CollectiveAlgorithm* const> collective_algorithms() {
  static constexpr std::array kRows{
#define ALGORITHM(name, row) &row,
#include "sim/network/algorithms/algorithms.def"
#undef ALGORITHM
  };
  return kRows;
}

const CollectiveAlgorithm& row_of(Algorithm algorithm) {
  TRACECAST_ASSERT(algorithm != Algorithm::automatic, "the algorithm has been chosen");
  const CollectiveAlgorithm& row = *collective_algorithms()[static_cast<std::size_t>(algorithm) - 1];
  TRACECAST_ASSERT(row.value == algorithm, "algorithms are numbered in the order of algorithms.def");
  return row;
}

}  // namespace tracecast
