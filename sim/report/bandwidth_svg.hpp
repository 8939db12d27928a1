/// \file
/// Plots bus bandwidth over message size, with busbw as nccl-tests defines it.
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

struct BandwidthPoint {
  Bytes size;
  double busbw = 0;    ///< bytes per second
  double spread = 0;   ///< relative standard deviation, drawn as a band
  std::string chosen;  ///< algorithm and protocol: changes are marked
};

/// A complete SVG document, readable on light and dark pages, with sizes on a logarithmic axis.
/// Requires points sorted by size, all sizes above 0.
std::string bandwidth_svg(const std::string& title, const std::vector<BandwidthPoint>& points);

}  // namespace tracecast
