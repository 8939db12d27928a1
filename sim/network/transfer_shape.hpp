/// \file
/// A transfer as the fluid network sees it: how long it takes alone, and its load on each link.
#pragma once

#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/max_min.hpp"

namespace tracecast {

/// A kind of transfer. fluid.hpp has the equations.
struct TransferShape {
  Duration latency;
  Duration moving;  ///< alone
  Bandwidth limit;  ///< rate of a flow of weight 1, alone
  std::vector<LinkWeight> loads;
  bool collides = false;  ///< its own flows collide on cables: alone it takes longer than its cost
  bool operator==(const TransferShape&) const = default;
};

}  // namespace tracecast
