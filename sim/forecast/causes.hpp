/// Why a step takes as long as it does: the critical path by cause, and the step without each cause.
#pragma once

#include <vector>

#include "sim/engine/timeline.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// One cause per class of work that takes time somewhere, largest saving first.
///
/// The critical path is followed from the last end back through what decided each start (Span::cause); it is busy at
/// every moment, so its parts sum to the step time. `step_without_s` is simulated anew with that work taking no time;
/// for the pipeline bubble, which is no work, it is the step of the busiest rank without its bubble. Requires a
/// timeline of this graph with spans.
std::vector<Cause> find_causes(const StepGraph& graph, const Timeline& timeline);

}  // namespace tracecast
