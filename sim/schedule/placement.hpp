/// \file
/// Which virtual stage each (rank, chunk) holds, and the start of a schedule that has such a placement.
#pragma once

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// [rank][chunk] -> stage.
using Placement = std::vector<std::vector<int>>;

/// Round and round: chunk c of rank r holds stage c P + r. With one chunk: stage r.
Placement loop_placement(int ranks, int chunks);

/// There and back: even chunks run up the ranks, odd ones down; chunk c holds stage c P + r, or c P + P-1-r.
/// With two chunks this is the V of ZB-V and DualPipeV.
Placement snake_placement(int ranks, int chunks);

/// A schedule without actions over one copy of the model.
Schedule start_schedule(const ScheduleRequest& request, Placement placement);

/// Two copies that run against each other: chunk 0 is stage r of replica 0, chunk 1 stage P-1-r of replica 1.
Schedule start_bidirectional_schedule(const ScheduleRequest& request);

}  // namespace tracecast
