/// \file
/// The compute stream of a rank as runs of templates, and the memory that they keep: what a trace and a page draw of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Consecutive spans of the compute stream that one run of a template makes.
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
  Bytes in_use;  ///< from then on
};

/// Memory over the step: `resident`, and the activations that runs keep and give back when they end.
std::vector<MemoryPoint> memory_over_time(const StepGraph& graph, std::span<const TemplateRun> runs, Bytes resident);

}  // namespace tracecast
