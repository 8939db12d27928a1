/// \file
/// Every message of a collective by itself, where links are not shared: what late or unequal ranks do to the rounds.
///
///   a message leaves when its sender is ready and its NIC has sent what came before; it arrives after
///   latency + size / rate; its receiver is ready for the next round when it and its own sending are over
///
/// LogGPS with G = 1 / rate, L = latency, o = g = 0 and eager messages (Alexandrov et al. 1995; Ino et al. 2001), which is
/// what message-level simulators of collectives compute. No queue: rounds are swept rank by rank, since a message only
/// depends on the round before it.
#pragma once

#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/collective_flows.hpp"

namespace tracecast {

struct MessageCost {
  Duration latency;
  Bandwidth rate;
};

/// When each rank has done its part, from `starts` on.   Requires one start per rank, and flows between ranks only
std::vector<Duration> message_times(const FlowSchedule& schedule, const MessageCost& cost,
                                    std::span<const Duration> starts);

}  // namespace tracecast
