/// \file
/// The compute stream of a rank as runs of templates, and the memory that they hold, for traces and pages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Consecutive spans of the compute stream that belong to one run of a template.
struct TemplateRun {
  std::int32_t template_index = 0;
  std::int32_t microbatch = 0;
  Duration start;
  Duration end;
};

/// Spans of the rank with this index into StepGraph::ranks.   Requires timeline.spans.
std::span<const Span> spans_of(const Timeline& timeline, std::int32_t rank);

/// `spans`: those of one rank.
std::vector<TemplateRun> template_runs(const StepGraph& graph, std::span<const Span> spans);

struct MemoryPoint {
  Duration at;
  Bytes in_use;  ///< from this time on
};

/// Memory over the step: `resident` plus the activations that runs allocate and free.
std::vector<MemoryPoint> memory_over_time(const StepGraph& graph, std::span<const TemplateRun> runs, Bytes resident);

}  // namespace tracecast
