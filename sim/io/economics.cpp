#include "sim/io/economics.hpp"

namespace tracecast {

std::optional<Range3> Economics::price_per_gpu_hour(const std::string& gpu) const {
  const auto found = gpus.find(gpu);
  if (found == gpus.end()) return std::nullopt;
  const GpuEconomics& known = found->second;
  const std::optional<Range3> power = kilowatts_per_gpu(gpu);
  if (known.price || !known.purchase || !ownership || !power) return known.price;
  constexpr double kHoursPerYear = 8766;
  const auto hourly = [](double purchase, double years, double kilowatts, double usd_per_kwh) {
    return purchase / (years * kHoursPerYear) + kilowatts * usd_per_kwh;
  };
  const Range3& bought = *known.purchase;
  const Ownership& own = *ownership;
  return Range3{hourly(bought.low, own.years.high, power->low, own.usd_per_kwh.low),
                hourly(bought.typical, own.years.typical, power->typical, own.usd_per_kwh.typical),
                hourly(bought.high, own.years.low, power->high, own.usd_per_kwh.high)};
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
