/// \file
/// Transfers in flight together: the two network models that know of sharing, `fluid` and `simgrid`, behind one interface.
///
/// Both take the flows of a collective and its cost when it is alone, in two parts: a latency that loads nothing, and the
/// moving, in which every flow of a round runs at the same rate unless links hold it back:
///
///   rate alone = bytes of the largest flow of each round, summed / moving time alone
///
/// So both start from the same numbers of NCCL's protocols, and differ in what they do with the flows: fluid makes one
/// variable of them, with the mean load on each link; SimGrid runs every one.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/collective_flows.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// Kinds of transfers are made known beforehand (FluidNetwork::add_kind, SimGridNetwork::add_kind), and named by number.
class FlowNetwork {
 public:
  virtual ~FlowNetwork() = default;

  /// Puts a transfer on its way. `transfer` is the caller's name for it.
  /// Requires a time that is not before the last instant of advance()
  virtual void start(std::int32_t transfer, std::int32_t kind, Duration at) = 0;

  /// Goes on to the next instant at which something ends, and says what. False: nothing is on its way.
  /// The caller puts everything on its way that begins before that instant.
  virtual bool advance(Duration& now, std::vector<std::int32_t>& ended) = 0;
};

/// Rate of the flows of a transfer that is alone; at least 1 byte per second.
Bandwidth rate_alone(const CollectiveCost& cost, const FlowSchedule& schedule);

}  // namespace tracecast
