#include "sim/report/json_parts.hpp"

namespace tracecast {

nlohmann::ordered_json range_json(const Range3& range) {
  return {{"low", range.low}, {"typical", range.typical}, {"high", range.high}};
}

nlohmann::ordered_json memory_by_kind_json(const MemoryByKind& memory) {
  return {{"weights", gib(memory.weights)},
          {"gradients", gib(memory.gradients)},
          {"optimizer", gib(memory.optimizer)},
          {"activations", gib(memory.activations)},
          {"transient", gib(memory.transient)},
          {"fixed", gib(memory.fixed)},
          {"fragmentation", gib(memory.fragmentation)}};
}

nlohmann::ordered_json waterfall_json(const GoodputForecast& report) {
  nlohmann::ordered_json shares = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kTimeCategories; ++i)
    shares[to_string(static_cast<TimeCategory>(i))] = report.goodput.share[i];
  return shares;
}

}  // namespace tracecast
