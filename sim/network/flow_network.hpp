/// \file
/// Concurrent transfers: the interface of the two network models with link sharing, `fluid` and `simgrid`.
///
/// Both use the flows of a collective and its cost alone. The cost has two parts: a latency that loads no link, and the time
/// of moving, in which the flows of a round end together unless a link is their bottleneck:
///
///   rate alone = bytes of the largest flow of each round, summed / moving time alone
///
/// So both use the same numbers of NCCL's protocols, and differ in the flows: fluid combines them into one variable, with the
/// mean load on each link; SimGrid simulates every flow.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/base/units.hpp"
#include "sim/network/collective_flows.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// A transfer between its start and its end.
struct TransferProgress {
  std::int32_t transfer = -1;
  std::int32_t kind = -1;
  bool moving = false;     ///< its latency has passed
  bool solved = false;     ///< shares links
  Wide residual = 0;       ///< what is left to move, as of `since`
  std::int64_t rate = 0;   ///< bytes per second
  std::int64_t since = 0;  ///< ps
  std::int64_t next = 0;   ///< ps, when its latency or it ends, if nothing changes
};

/// Kinds of transfers are registered beforehand (FluidNetwork::add_kind, SimGridNetwork::add_kind) and have numbers.
class FlowNetwork {
 public:
  virtual ~FlowNetwork() = default;

  /// Starts a transfer. `transfer` is the caller's number for it.
  /// Requires a time that is not before the last instant of advance()
  virtual void start(std::int32_t transfer, std::int32_t kind, Duration at) = 0;

  /// Every transfer of this kind takes at least this long, whatever shares its links; 0: not known.
  virtual Duration shortest(std::int32_t) const { return {}; }

  /// Advances to the next instant at which transfers end, and returns these in `ended`. False: no transfer is in flight.
  /// Does not advance beyond `limit`; false as well if nothing ends until then.
  /// Requires that the caller has started all transfers that begin before that instant.
  virtual bool advance(Duration& now, std::vector<std::int32_t>& ended, Duration limit) = 0;
  bool advance(Duration& now, std::vector<std::int32_t>& ended) { return advance(now, ended, kNoLimit); }

  /// Whether in_flight() and move_on() are there.
  virtual bool moves_on() const { return false; }
  virtual std::vector<TransferProgress> in_flight() const { return {}; }
  /// Lets time pass in which nothing happens: everything in flight does as much later what it would have done.
  virtual void move_on(Duration) {}

  static constexpr Duration kNoLimit{std::numeric_limits<std::int64_t>::max()};
};

/// Rate of the largest flows of a transfer alone; at least 1 byte per second.
Bandwidth rate_alone(const CollectiveCost& cost, const FlowSchedule& schedule);

}  // namespace tracecast
