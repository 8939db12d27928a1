/// Two jobs as one step graph: they meet nowhere, but may share links.
///
/// Ranks, templates and communicators of the second come behind those of the first, and its slots behind the first one's.
/// Both steps begin at 0 and run once.
#pragma once

#include "sim/graph/step_graph.hpp"

namespace tracecast {

StepGraph side_by_side(StepGraph first, const StepGraph& second);

}  // namespace tracecast
