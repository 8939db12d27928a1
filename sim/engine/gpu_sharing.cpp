#include "sim/engine/gpu_sharing.hpp"

#include <cmath>

namespace tracecast {

Bound bound_of(OperatorKind kind) {
  const bool multiplies = is_multiplication(kind) || kind == OperatorKind::attention || kind == OperatorKind::scores ||
                          kind == OperatorKind::indexer || kind == OperatorKind::sparse_attention;
  return multiplies ? Bound::compute : Bound::memory;
}

GpuUse use_of(const CostedOperator& op) {
  return {bound_of(op.op.kind), static_cast<std::uint16_t>(std::lround(op.cost.beside_collectives * kWholeExtra))};
}

double speed_during(const Profile& gpu, Bound bound, const CollectiveCost& cost, Bytes size) {
  constexpr double kMinSpeed = 0.1;  // chosen: a kernel makes progress whatever a collective takes
  double taken = 0;
  if (bound == Bound::compute) {
    taken = gpu.sms > 0 ? static_cast<double>(cost.channels) / gpu.sms : 0;
  } else if (bound == Bound::memory && gpu.memory_bandwidth > 0 && cost.duration.picoseconds > 0) {
    taken = 2 * static_cast<double>(size.count) / seconds(cost.duration) / gpu.memory_bandwidth;
  }
  return std::max(kMinSpeed, 1 - taken);
}

std::vector<Speeds> speeds_beside_collectives(const StepGraph& graph, const Profile& gpu) {
  const auto rounded = [&gpu](Bound bound, const CostedCollective& each) {
    return static_cast<std::int32_t>(std::lround(speed_during(gpu, bound, each.cost, each.call.size) * kFullSpeed));
  };
  std::vector<Speeds> speeds;
  speeds.reserve(graph.collectives.size());
  for (const CostedCollective& each : graph.collectives) {
    const bool told = each.traffic == Traffic::tensor_parallel || each.traffic == Traffic::expert_parallel;
    speeds.push_back({rounded(Bound::compute, each), rounded(Bound::memory, each), !told && each.cost.channels > 0});
  }
  return speeds;
}

}  // namespace tracecast
