#include "sim/engine/contention.hpp"

#include <utility>

namespace tracecast::engine {

Contention::Contention(const StepGraph& graph, const CompiledGraph& compiled, std::vector<Speeds> beside)
    : runs(compiled, std::move(beside)), ranks(graph.ranks.size()) {
  const auto slows = [&](const Template& source, std::size_t lane, std::int32_t index) {
    for (std::int32_t i = compiled.first_stream_op(index, lane); i < compiled.first_stream_op(index, lane + 1); ++i) {
      const StreamOp& op = compiled.stream_ops[static_cast<std::size_t>(i)];
      if (op.type != OpType::collective) continue;
      if (!runs.beside(source.ops[static_cast<std::size_t>(op.first_op)].payload).full()) return true;
    }
    return false;
  };
  for (std::size_t lane = kComputeStream + 1; lane < compiled.streams; ++lane)
    for (std::size_t i = 0; i < graph.templates.size(); ++i)
      if (slows(graph.templates[i], lane, static_cast<std::int32_t>(i))) {
        lanes.push_back(static_cast<std::int32_t>(lane));
        break;
      }
  for (const std::int32_t lane : lanes) lane_bits |= lane_bit(lane);
  if (!lanes.empty() && lane_bit(lanes.back()) == 0) lane_bits = 0;
}

}  // namespace tracecast::engine
