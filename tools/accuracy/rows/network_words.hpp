/// \file
/// The network of a node in the words of a source:
///
///   "8x NDR InfiniBand 400Gb/s per node", "200Gb/s x8", "8 rails of 200Gb/s", "8x 200G", "8x2x200Gb/s", "400Gb/s per GPU",
///   "1600Gb/s RoCE per node", "28.8 Tb/s per rack", "8x NDR"
///
/// Figures that the table calls "not printed", "about" or "assumed" are not used.
#pragma once

#include <optional>
#include <string_view>

#include "sim/base/units.hpp"

namespace tracecast::accuracy {

/// The network of a node. `nics`, `rate`: 0 when not reported. `of`: what the rate belongs to.
struct ReportedNetwork {
  enum class Rate { nic, gpu, node, rack };
  int nics = 0;
  Bandwidth rate;
  Rate of = Rate::nic;
  bool each_gpu = false;  ///< has so many NICs
};
/// Empty when the description has no rate.
std::optional<ReportedNetwork> reported_network(std::string_view words);

}  // namespace tracecast::accuracy
