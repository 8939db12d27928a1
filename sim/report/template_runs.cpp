#include "sim/report/template_runs.hpp"

#include <algorithm>

namespace tracecast {

std::span<const Span> spans_of(const Timeline& timeline, std::int32_t rank) {
  const auto found = std::ranges::equal_range(timeline.spans, rank, {}, &Span::rank);
  return {found.begin(), found.end()};
}

std::vector<TemplateRun> template_runs(const StepGraph& graph, std::span<const Span> spans) {
  std::vector<TemplateRun> runs;
  for (const Span& span : spans) {
    const Op& op =
        graph.templates[static_cast<std::size_t>(span.template_index)].ops[static_cast<std::size_t>(span.op)];
    if (op.stream != kComputeStream || op.type != OpType::compute || op.payload < 0) continue;
    const bool same =
        !runs.empty() && runs.back().template_index == span.template_index && runs.back().microbatch == span.microbatch;
    if (!same) runs.push_back({span.template_index, span.microbatch, span.start, span.end});
    runs.back().end = span.end;
  }
  return runs;
}

std::vector<MemoryPoint> memory_over_time(const StepGraph& graph, std::span<const TemplateRun> runs, Bytes resident) {
  std::vector<MemoryPoint> points{{{}, resident}};
  for (const TemplateRun& run : runs) {
    const Template& what = graph.templates[static_cast<std::size_t>(run.template_index)];
    if (what.allocates == what.releases) continue;
    points.push_back({run.end, points.back().in_use + what.allocates - what.releases});
  }
  return points;
}

}  // namespace tracecast
