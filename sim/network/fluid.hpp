/// \file
/// The fluid network model: each transfer in flight is one variable, the rate of its flows; links are shared max-min.
///
///   weight of a link = bytes of the transfer's flows on it in all rounds / bytes of the largest flow of each round, summed
///                      (of the flows between scale-up domains, if a round has some: there flows share links, and each of them
///                      is entitled to as much as one flow of another transfer)
///   time             = latency alone + time until the integral of the rate is (rate alone x moving time alone)
///
/// A ring has weight 1 on every link of its path, as one flow has. The weight is the mean load of a link; the model leaves
/// out that the rounds of a tree or an all-to-all load a link unevenly over time.
///
/// Alone, a transfer takes exactly its cost. Weights are reduced where its own flows would overload a link, since the cost
/// of the analytic model includes that (FluidOptions::alone_as_costed). The cost does not include collisions of hashed flows
/// on single cables. There each round of a transfer alone takes
///
///   max(largest flow / rate of flows in its cost, bytes on the fullest cable / its capacity)
///
/// and the transfer becomes longer by the difference; its rate and weights follow from that.
///
/// Exact: rates are integers (max_min.hpp). The remaining work is a 128-bit integer of bytes per second x picoseconds, which
/// does not depend on how time is divided. Ends are rounded up to the picosecond, and all events of an instant are handled
/// together. So results depend neither on the order of starts nor on whether equal transfers are simulated once or each.
///
/// A transfer that starts on links without others, which can carry it at its rate alone, has that rate. The solver gets it when
/// another one starts on one of its links.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/base/radix_heap.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/flow_network.hpp"
#include "sim/network/max_min.hpp"
#include "sim/network/transfer_shape.hpp"

namespace tracecast {

struct FluidOptions {
  bool alone_as_costed = true;  ///< a transfer's own flows do not slow each other, since its cost includes it
};

/// The weight of one flow on a link of its path under alone_as_costed.
std::int64_t lone_flow_weight(Bandwidth capacity, Bandwidth limit);

/// Sums the flows of a transfer into its shape.
class TransferShapes {
 public:
  explicit TransferShapes(const ClusterLinks& links, FluidOptions options = {});
  TransferShape shape(const CollectiveCost& cost, const FlowSchedule& schedule, const FlowGroup& group);

 private:
  /// Adds a round, whose flows have the rate `limit` unless a cable is their bottleneck.
  void add(const Round& round, const FlowGroup& group, Bandwidth limit);
  void add(const LinkPath& path, std::int64_t bytes, std::int64_t count);

  const ClusterLinks& links_;
  FluidOptions options_;
  std::vector<std::int64_t> bytes_;  ///< [link] of the current transfer; 0 between calls; empty before the first
  std::vector<std::int32_t> loaded_links_;
  /// As of the last transfer, and sorted: calls of one group mostly load the same links.
  std::vector<std::int32_t> last_loaded_links_;
  std::vector<std::int32_t> sorted_links_;
  std::vector<std::int64_t> on_cable_;  ///< [cable] bytes of the current round; 0 between rounds
  std::vector<std::int32_t> cables_;    ///< that the current round loads
  Bytes unit_;                          ///< of the rounds so far: bytes of a flow at weight 1
  Duration cable_delay_;                ///< by which the rounds so far take longer than their cost
  LinkPath path_;
};

class FluidNetwork final : public FlowNetwork {
 public:
  explicit FluidNetwork(const ClusterLinks& links, FluidOptions options = {})
      : links_(links), shapes_(links, options) {}

  /// Registers a kind of transfer. Returns its number.
  std::int32_t add_kind(const CollectiveCost& cost, const FlowSchedule& schedule, const FlowGroup& group);
  std::int32_t add_kind(TransferShape shape);
  void start(std::int32_t transfer, std::int32_t kind, Duration at) override;
  /// As alone: no flow is faster than its limit.
  Duration shortest(std::int32_t kind) const override {
    const Kind& own = kinds_[static_cast<std::size_t>(kind)];
    return own.latency + own.moving;
  }
  using FlowNetwork::advance;
  bool advance(Duration& now, std::vector<std::int32_t>& ended, Duration limit) override;

  bool moves_on() const override { return true; }
  std::vector<TransferProgress> in_flight() const override;
  void move_on(Duration by) override;

  std::int64_t events() const { return events_; }

 private:
  struct Kind : TransferShape {  ///< with loads by the solver's link numbers
    bool fits_alone = false;     ///< each of its links alone could carry it at its limit
  };
  /// What moves on a link. Apart from the solver's links: most transfers need no more of a link, and these fit the cache.
  struct Occupancy {
    std::int32_t moving = 0;
    std::int32_t alone = -1;  ///< the transfer that has the link to itself, without the solver; -1: none
  };
  /// A transfer between its start and its end.
  struct InFlight {
    std::int32_t transfer = -1;  ///< -1: none
    std::int32_t kind = -1;
    std::int32_t flow = -1;    ///< in the solver; -1: during its latency, without loaded links, or alone on them
    std::int32_t version = 0;  ///< of its next event; events of older versions are ignored
    bool moving = false;
    std::int64_t next = 0;  ///< ps, of its next event; here, so that a transfer fills one line of the cache
    Wide residual = 0;      ///< bytes per second x ps left to move, as of `since`
    std::int64_t rate = 0;
    std::int64_t since = 0;
  };
  struct Event {
    std::int32_t index;
    std::int32_t version;
  };

  InFlight& in_flight(std::int32_t index) { return in_flight_[static_cast<std::size_t>(index)]; }
  const Kind& kind_of(const InFlight& transfer) const { return kinds_[static_cast<std::size_t>(transfer.kind)]; }
  Occupancy& on(const LinkWeight& load) { return occupancy_[static_cast<std::size_t>(load.link)]; }
  std::int32_t solver_link(std::int32_t link);
  void fetch_ahead() const;
  void push_event(std::int32_t index, std::int64_t time);
  void begin_moving(std::int32_t index, std::int64_t now, std::vector<std::int32_t>& ended);
  bool moves_alone(const Kind& kind);
  void solve_for(std::int32_t index);
  void finish(std::int32_t index, std::vector<std::int32_t>& ended);
  void share_links(std::int64_t now);

  const ClusterLinks& links_;
  TransferShapes shapes_;
  std::vector<Kind> kinds_;
  MaxMin solver_;
  std::unordered_map<std::int32_t, std::int32_t> solver_links_;
  std::vector<InFlight> in_flight_;
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> transfer_of_flow_;
  std::vector<Occupancy> occupancy_;  ///< [link of the solver]
  RadixHeap<Event> queue_;
  std::int64_t events_ = 0;
};

}  // namespace tracecast
