/// \file
/// The fluid network model: each transfer in flight is one variable, the rate of its flows; links are shared max-min.
///
///   weight of a link = bytes that the transfer's flows bring to it in all rounds / bytes of the largest flow of each round
///   time  = latency alone + integral until the rates have moved (rate alone x moving time alone)
///
/// A ring on every link of its path has weight 1, as one flow; the weight is what a link carries on average, so what the
/// rounds of a tree or an all-to-all do to it at single moments is left out.
///
/// Alone, a transfer takes exactly its cost: weights are lowered where its own flows would overload a link, since the cost
/// of the analytic model knows of that already (FluidOptions::alone_as_costed). It does not know of single cables that
/// hashed flows meet on: there a transfer alone takes, round by round,
///
///   max(largest flow / rate of flows in its cost, bytes on the fullest cable / its capacity)
///
/// and so as much longer; its rate and weights follow from that.
///
/// Exact: rates are integers (max_min.hpp), what is left to move is a 128-bit integer of bytes per second x picoseconds that
/// does not depend on where time is cut, ends are rounded up to the picosecond, and all events of an instant are taken
/// together. So results do not depend on the order of starts or on whether equal transfers are simulated once or each.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/base/radix_heap.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/flow_network.hpp"
#include "sim/network/max_min.hpp"

namespace tracecast {

/// What a transfer does to links while it is in flight.
struct TransferShape {
  Duration latency;
  Duration moving;  ///< alone
  Bandwidth limit;  ///< rate of its flows, alone
  std::vector<LinkWeight> loads;
  bool collides = false;  ///< its own flows meet on cables: alone it takes longer than its cost
};

struct FluidOptions {
  bool alone_as_costed = true;  ///< a transfer's own flows do not slow each other: its cost has it
};

/// What one flow alone loads a link of its way with, where its cost knows what the link carries (alone_as_costed).
std::int64_t lone_flow_weight(Bandwidth capacity, Bandwidth limit);

/// Sums the flows of transfers up.
class TransferShapes {
 public:
  explicit TransferShapes(const ClusterLinks& links, FluidOptions options = {});
  TransferShape shape(const CollectiveCost& cost, const FlowSchedule& schedule, const FlowGroup& group);

 private:
  /// Sums a round up, whose flows have the rate `limit` where no cable holds them back.
  void add(const Round& round, const FlowGroup& group, Bandwidth limit);
  void add(const LinkPath& path, std::int64_t bytes, std::int64_t count);

  const ClusterLinks& links_;
  FluidOptions options_;
  std::vector<std::int64_t> bytes_;  ///< [link] of the transfer that is summed; 0 between calls
  std::vector<std::int32_t> touched_;
  std::vector<std::int64_t> on_cable_;  ///< [cable] bytes of the round that is summed; 0 between rounds
  std::vector<std::int32_t> cables_;    ///< that the round touches
  Duration longer_;                     ///< what the rounds so far take longer than their cost
  LinkPath path_;
};

class FluidNetwork final : public FlowNetwork {
 public:
  explicit FluidNetwork(const ClusterLinks& links, FluidOptions options = {})
      : links_(links), shapes_(links, options) {}

  /// Makes a kind of transfer known: what it moves, and what it takes alone. Returns its number.
  std::int32_t add_kind(const CollectiveCost& cost, const FlowSchedule& schedule, const FlowGroup& group);
  std::int32_t add_kind(TransferShape shape);
  void start(std::int32_t transfer, std::int32_t kind, Duration at) override;
  bool advance(Duration& now, std::vector<std::int32_t>& ended) override;

  std::int64_t events() const { return events_; }

 private:
  /// A transfer between its start and its end.
  struct Flight {
    std::int32_t transfer = -1;
    std::int32_t kind = -1;
    std::int32_t flow = -1;    ///< in the solver; -1: in its latency, or it loads no link
    std::int32_t version = 0;  ///< of its next event: older ones in the queue are void
    bool moving = false;
    Wide rest = 0;  ///< bytes per second x ps that it has yet to move, as of `since`
    std::int64_t rate = 0;
    std::int64_t since = 0;
  };
  struct Event {
    std::int32_t flight;
    std::int32_t version;
  };

  Flight& flight(std::int32_t index) { return flights_[static_cast<std::size_t>(index)]; }
  const TransferShape& shape(const Flight& flight) const { return kinds_[static_cast<std::size_t>(flight.kind)]; }
  std::int32_t solver_link(std::int32_t link);
  void expect(std::int32_t index, std::int64_t time);
  void begin_moving(std::int32_t index, std::int64_t now, std::vector<std::int32_t>& ended);
  void finish(std::int32_t index, std::vector<std::int32_t>& ended);
  void share_links(std::int64_t now);

  const ClusterLinks& links_;
  TransferShapes shapes_;
  std::vector<TransferShape> kinds_;  ///< loads by the solver's numbers
  MaxMin solver_;
  std::unordered_map<std::int32_t, std::int32_t> solver_links_;
  std::vector<Flight> flights_;
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> flight_of_flow_;
  RadixHeap<Event> queue_;
  std::int64_t events_ = 0;
};

}  // namespace tracecast
