/// \file
/// Cost and energy of a GPU-hour: data, one file per set of assumptions in scenarios/economics/
/// (docs/formats/economics.md).
///
///   power of one GPU       = (thermal design power x node_power + network_watts) x PUE
///   price of an owned GPU  = purchase / (years x 8,766 h) + power x price of electricity
///
/// Leaves out: storage, staff, data transfer, discounts for long terms; for owned GPUs the building and the resale
/// value.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace tracecast {

/// A value with its range.
struct Range3 {
  double low = 0;
  double typical = 0;
  double high = 0;
  bool operator==(const Range3&) const = default;
};
inline Range3 operator*(const Range3& a, double factor) {
  return {a.low * factor, a.typical * factor, a.high * factor};
}

struct GpuEconomics {
  std::optional<Range3> price;  ///< US dollars per GPU-hour; none: unknown
  double tdp_watts = 0;
  std::optional<Range3> purchase{};  ///< US dollars per GPU with its share of the node; used without a price
  bool operator==(const GpuEconomics&) const = default;
};

/// Costs of ownership other than the purchase.
struct Ownership {
  Range3 years;        ///< of use
  Range3 usd_per_kwh;  ///< of electricity
  bool operator==(const Ownership&) const = default;
};

struct Economics {
  std::string name;
  std::string description;
  std::string source;
  std::map<std::string, GpuEconomics> gpus;  ///< by name of the profile
  Range3 node_power{1, 1, 1};                ///< power of a node / thermal design power of its GPUs
  Range3 network_watts;                      ///< per GPU
  Range3 pue{1, 1, 1};
  std::optional<Ownership> ownership;
  bool operator==(const Economics&) const = default;

  std::optional<Range3> price_per_gpu_hour(const std::string& gpu) const;
  /// Kilowatts drawn from the grid for one GPU.
  std::optional<Range3> kilowatts_per_gpu(const std::string& gpu) const;
};

}  // namespace tracecast
