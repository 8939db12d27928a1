/// \file
/// Bus bandwidth over size, as the plots of nccl-tests show it.
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

/// A whole SVG document, readable on light and dark pages; sizes on a logarithmic axis.
/// Requires points in the order of their sizes, all of them above 0.
std::string bandwidth_svg(const std::string& title, const std::vector<BandwidthPoint>& points);

}  // namespace tracecast
