#include "sim/cost/memory_bound.hpp"

namespace tracecast {

const MemoryModel* find_memory_model(const Profile& profile, OperatorKind kind, Pass pass) {
  const std::pair<OperatorKind, Pass> candidates[] = {
      {kind, pass}, {kind, Pass::forward}, {OperatorKind::copy, Pass::forward}};
  for (const auto& key : candidates) {
    const auto found = profile.memory_bound.find(key);
    if (found != profile.memory_bound.end()) return &found->second;
  }
  return nullptr;
}

double memory_bound_seconds(const MemoryModel& model, double memory_bandwidth, Bytes traffic) {
  return model.t0 + static_cast<double>(traffic.count) / (model.efficiency * memory_bandwidth);
}

}  // namespace tracecast
