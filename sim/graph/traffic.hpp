/// \file
/// The traffic of a step: the collectives and messages of one rank's program, counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Calls of one kind by one rank over one communicator.
struct TrafficCount {
  Traffic traffic = Traffic::tensor_parallel;
  Collective collective = Collective::all_reduce;
  std::int32_t slot = -1;  ///< of Rank::communicators; -1: point-to-point
  int ranks = 2;           ///< of the communicator
  int nodes = 1;           ///< it touches
  std::int64_t calls = 0;
  Bytes size;           ///< sum of CollectiveCall::size
  double sent = 0;      ///< bytes that the rank sends, by the collective's factor (bus_bandwidth)
  double sent_far = 0;  ///< of them, out of the fullest domain; of collectives only
};

/// Of simulated rank `rank`, in the order of first use. Messages are counted where they are sent.
std::vector<TrafficCount> count_traffic(const StepGraph& graph, std::size_t rank);

}  // namespace tracecast
