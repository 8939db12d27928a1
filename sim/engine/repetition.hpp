/// \file
/// Where the programs of a step graph repeat: in the steady state of a pipeline, each rank does with later micro-batches what it
/// did with earlier ones.
///
/// Item i + period of a program is the same template as item i, for a micro-batch that is later by `microbatches`. All programs
/// advance by the same number of micro-batches in a period.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engine/compiled_graph.hpp"

namespace tracecast::engine {

/// The items [first, last) of a program that repeat.
struct RepeatedItems {
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int32_t period = 0;        ///< items
  std::int32_t issue_blocks = 0;  ///< by which the host advances in a period
  std::int64_t host_time = 0;     ///< ps that the host takes for a period; if it is in one issue block
  std::vector<std::int32_t> lowest =
      {};  ///< [item] the first micro-batch of this item and those after it, up to `last`
  std::vector<std::int32_t> highest = {};  ///< [item] the last micro-batch of this item and those before it
};

struct Repetition {
  std::int32_t microbatches = 0;
  std::vector<RepeatedItems> programs;  ///< [compiled program]
};

/// Nothing if a program does not repeat for at least four periods.
std::optional<Repetition> find_repetition(const CompiledGraph& compiled);

}  // namespace tracecast::engine
