/// \file
/// The critical path of a step, followed backwards from the span that ends last. A start that the host decided has host work before
/// it, since the end of the span that it had waited for.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Calls `work` with each operation of the path and its picoseconds, and `host` with those of the host's work.
template <class Work, class Host>
void follow_critical_path(const StepGraph& graph, const Timeline& timeline, const Work& work, const Host& host) {
  std::int64_t until = timeline.step_time.picoseconds;
  const auto last = std::ranges::max_element(timeline.spans, {}, &Span::end);
  for (auto index = timeline.spans.empty() ? -1 : static_cast<std::int32_t>(last - timeline.spans.begin());
       index >= 0;) {
    const Span& span = timeline.spans[static_cast<std::size_t>(index)];
    const Template& each = graph.templates[static_cast<std::size_t>(span.template_index)];
    work(each.ops[static_cast<std::size_t>(span.op)], until - span.start.picoseconds);
    until = span.start.picoseconds;
    index = span.cause;
    if (index < 0) break;
    const std::int64_t reached = timeline.spans[static_cast<std::size_t>(index)].end.picoseconds;
    if (reached >= until) continue;
    host(until - reached);
    until = reached;
  }
  host(until);
}

}  // namespace tracecast
