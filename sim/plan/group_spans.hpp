/// \file
/// How far apart in rank order the members of a communicator are.
#pragma once

#include <vector>

#include "sim/plan/parallel.hpp"

namespace tracecast {

/// For the tensor, context and expert groups with more than one rank: the number of consecutive ranks that one group has its
/// members in. tp 8, cp 2 with the default rank_order: 8, and 16 (a context group has every eighth rank of 16).
/// Empty if the rank_order is invalid or the degrees are not positive; make_plan reports that.
std::vector<int> group_spans(const Parallel& parallel, int world_size);

}  // namespace tracecast
