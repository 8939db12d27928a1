/// Sums over what a rank sends.
#pragma once

#include <vector>

#include "sim/graph/traffic.hpp"

namespace tracecast::test {

/// Of one traffic and collective.
inline TrafficCount total_of(const std::vector<TrafficCount>& counts, Traffic traffic, Collective collective) {
  TrafficCount sum;
  sum.traffic = traffic;
  sum.collective = collective;
  for (const TrafficCount& each : counts) {
    if (each.traffic != traffic || each.collective != collective) continue;
    sum.ranks = each.ranks;
    sum.nodes = each.nodes;
    sum.calls += each.calls;
    sum.size += each.size;
    sum.sent += each.sent;
  }
  return sum;
}

}  // namespace tracecast::test
