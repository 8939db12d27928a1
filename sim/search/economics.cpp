#include "sim/search/economics.hpp"

namespace tracecast {

std::optional<Range3> Economics::price_per_gpu_hour(const std::string& gpu) const {
  const auto found = gpus.find(gpu);
  return found == gpus.end() ? std::nullopt : found->second.price;
}

std::optional<Range3> Economics::kilowatts_per_gpu(const std::string& gpu) const {
  const auto found = gpus.find(gpu);
  if (found == gpus.end() || found->second.tdp_watts <= 0) return std::nullopt;
  const double tdp = found->second.tdp_watts;
  const auto drawn = [&](double node, double network, double pue_factor) {
    return (tdp * node + network) * pue_factor / 1000;
  };
  return Range3{drawn(node_power.low, network_watts.low, pue.low),
                drawn(node_power.typical, network_watts.typical, pue.typical),
                drawn(node_power.high, network_watts.high, pue.high)};
}

}  // namespace tracecast
