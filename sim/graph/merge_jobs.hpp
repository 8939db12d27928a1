/// \file
/// Two co-located jobs as one step graph: they have no common communicator, but may share links.
#pragma once

#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Ranks, templates, communicators and slots of the second job follow those of the first. Both steps begin at 0 and run
/// once.
StepGraph merge_jobs(StepGraph first, const StepGraph& second);

/// `steps` consecutive steps, without a barrier between them. Ranks and communicators stay the same, templates and rank
/// events are copied for each step, micro-batch numbers continue.   Requires steps >= 1
StepGraph repeated(StepGraph graph, int steps);

}  // namespace tracecast
