/// \file
/// Two jobs as one step graph: they meet nowhere, but may share links.
///
/// Ranks, templates and communicators of the second come behind those of the first, and its slots behind the first one's.
/// Both steps begin at 0 and run once.
#pragma once

#include "sim/graph/step_graph.hpp"

namespace tracecast {

StepGraph side_by_side(StepGraph first, const StepGraph& second);

/// `steps` steps one after the other: hosts and streams go on as they do from one step to the next. Ranks and communicators stay,
/// templates and rank events are there once for each step, micro-batches are numbered on.   Requires steps >= 1
StepGraph repeated(StepGraph graph, int steps);

}  // namespace tracecast
