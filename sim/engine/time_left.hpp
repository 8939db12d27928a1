/// \file
/// How long a step takes at least from each item of a rank on, so that a step which takes too long is noticed early.
///
/// The longest path to the end of the step over the computation of items and the messages between ranks:
///
///   left(item) = max of  computation of the item + left(next item of the rank)
///                        computation before a send of the item + left(item that waits for the message)
///
/// Computation counts without waits, at the speed of the rank's program, and nothing on a rank that is faster; messages and other
/// transfers count nothing. Messages that an item does not certainly wait for are left out.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/compiled_graph.hpp"

namespace tracecast::engine {

/// ps from the beginning of an item's computation; of each rank at last 0, for the end of its program.
using TimeLeft = std::vector<std::vector<std::int64_t>>;  ///< [rank][item]
/// Requires micro-batches that take the same time (VaryingWork)
TimeLeft time_left(const StepGraph& graph, const CompiledGraph& compiled);

}  // namespace tracecast::engine
