/// Runs the transfers of a network that nothing else happens to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/network/fluid.hpp"

namespace tracecast::test {

/// When each of the transfers 0 to count - 1, which have been started, ends.
inline std::vector<Duration> ends_of_transfers(FluidNetwork& network, std::size_t count) {
  std::vector<Duration> ends(count);
  Duration now;
  std::vector<std::int32_t> ended;
  while (network.advance(now, ended))
    for (const std::int32_t each : ended) ends[static_cast<std::size_t>(each)] = now;
  return ends;
}

}  // namespace tracecast::test
