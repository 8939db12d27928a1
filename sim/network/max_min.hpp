/// \file
/// Max-min fair rates of flows that share links, on integers.
///
///   for every link l:  sum over flows f of weight(f, l) x rate(f)  <=  capacity(l)
///   for every flow f:  rate(f) <= limit(f)
///
/// and no rate can grow unless a rate that is not larger shrinks. Example: flows A and B share a link of 10, B and C share a
/// link of 4, all weights are 1. The second link has the smaller share, 2: B and C get 2. A gets the remaining 8.
///
/// Links whose flows could all run at their limits (sum of weight x limit <= capacity) never bind and are left out. The
/// others are saturated in synchronous rounds. The smallest share of all is floor(residual / summed weight) of a link, or
/// the limit of a flow. Every flow of every link with exactly this share gets it, and the capacity that these flows use is
/// subtracted from their other links at once. The share is the level of the saturated links.
///
/// Everything is an integer: rates in bytes per second, weights in 2^-20, residuals in 128 bits; one division per link and
/// round. So rates depend neither on the order of flows and links, nor on whether n equal flows are given as n flows or as
/// one flow of n times the weight on each link that they share.
///
/// A solve repeats only the rounds of links that a change can affect, with exactly the result of a complete solve:
///
/// - Levels grow from round to round: a link with residual >= s x weight keeps that when flows get s, and where the floor was
///   above s it stays above. So each level is one round, and its result depends only on the rates below it:
///
///     level(l) = s   where   floor((capacity - sum of weight x rate of its flows below s) / summed weight of the others) = s
///     rate(f)  = the smallest of its limit and the levels of its links
///
///   By induction over levels, one assignment of rates satisfies this, and the rounds find it.
/// - So the sweep goes up the levels with only those links for which a flow was added, removed, or got a new rate. A link
///   outside of the sweep keeps its level, and a flow that crosses no link of the sweep keeps its rate. A flow of the sweep
///   keeps its rate if, at this level, its limit or the level of a link outside is still its bottleneck. If not, or if a link
///   of the sweep gives it less, its other links become active at this level: nothing has changed for them below it.
///
/// Source: water filling (Bertsekas & Gallager, Data Networks 6.5.2); rounding, rounds and sweep are our own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Weight 1: a flow that loads a link with its whole rate.
inline constexpr std::int64_t kWeightOne = std::int64_t{1} << 20;

/// The capacity of a link that a flow of rate 1 takes, in units of 1 / kWeightOne.
struct LinkWeight {
  std::int32_t link = 0;
  std::int64_t weight = kWeightOne;
  auto operator<=>(const LinkWeight&) const = default;
};

class MaxMin {
 public:
  /// Returns the link's number: 0, 1, 2 …   Requires 0 < capacity < 2^60
  std::int32_t add_link(Bandwidth capacity);

  /// Returns the flow's number; numbers of removed flows are used again.
  /// Requires limit > 0; every link at most once; weights > 0, their sum on one link below 2^62 / its capacity's share
  std::int32_t add_flow(Bandwidth limit, std::span<const LinkWeight> loads);
  void remove_flow(std::int32_t flow);

  /// False: a solve changes nothing.
  bool outdated() const { return !new_flows_.empty() || !dirty_links_.empty(); }
  /// Updates all rates. Returns the flows whose rate has changed since the last call, including new ones.
  const std::vector<std::int32_t>& solve();

  /// The rate after the last solve().
  Bandwidth rate(std::int32_t flow) const { return {flows_[static_cast<std::size_t>(flow)].rate}; }
  /// Fetches what is changed when a flow is added on the link, or removed.
  void fetch(std::int32_t link) const {
    __builtin_prefetch(&links_[static_cast<std::size_t>(link)]);
    __builtin_prefetch(&links_[static_cast<std::size_t>(link)].flows);
  }
  std::int32_t links() const { return static_cast<std::int32_t>(links_.size()); }
  /// True if no flow crosses the link, and a single one with this weight could run at its limit.
  bool carries_alone(const LinkWeight& load, Bandwidth limit) const {
    const Link& crossed = links_[static_cast<std::size_t>(load.link)];
    return crossed.flows.empty() && wide(load.weight) * wide(limit.bytes_per_second) <= crossed.capacity;
  }

 private:
  static constexpr std::int32_t kNone = -1;

  /// The incidence of a flow and a link, as the flow stores it.
  struct LinkIncidence {
    std::int32_t link;
    std::int32_t position;  ///< in Link::flows
    std::int64_t weight;
  };
  struct Flow {
    std::int64_t limit = 0;
    std::int64_t rate = 0;
    std::int64_t last_solve = 0;        ///< the last solve whose sweep visited it
    std::int32_t bottleneck = kNone;    ///< the link that gave it its rate; a hint, may be outdated
    std::int32_t first_active = kNone;  ///< in the sweep: head of its list in active_incidences_
    bool active = false;
    bool frozen = false;  ///< in the sweep: has its rate
    std::vector<LinkIncidence> incidences;
  };
  /// The same incidence, as the link stores it.
  struct FlowIncidence {
    std::int32_t flow;
    std::int32_t position;  ///< in Flow::incidences
    std::int64_t weight;
  };
  struct Link {
    Wide capacity = 0;  ///< bytes per second x kWeightOne
    Wide demand = 0;    ///< sum of weight x limit
    std::int64_t level = kNone;
    std::int64_t last_solve = 0;  ///< the last solve whose sweep it was in
    Wide residual = 0;            ///< in the sweep: capacity that frozen flows leave
    std::int64_t weight = 0;      ///< in the sweep: summed weight of flows without a rate
    bool dirty = false;
    std::vector<FlowIncidence> flows;
    bool binds() const { return demand > capacity; }
  };
  /// The incidence of a flow without a rate and a link of the sweep.
  struct ActiveIncidence {
    std::int32_t link;
    std::int32_t next;  ///< of the same flow
    std::int64_t weight;
  };
  /// What the sweep examines at a level: flow `index`, or link ~`index` whose share was at least `level`.
  struct SweepEvent {
    std::int64_t level;
    std::int32_t index;
  };

  Flow& flow(std::int32_t index) { return flows_[static_cast<std::size_t>(index)]; }
  Link& link(std::int32_t index) { return links_[static_cast<std::size_t>(index)]; }
  void mark_dirty(std::int32_t index);
  void remove_incidence(Link& from, std::int32_t position);
  void start_sweep();
  void push_event(std::int64_t level, std::int32_t index);
  bool visit(std::int32_t index);
  void visit_at_old_rate(std::int32_t index);
  void activate(std::int32_t index, std::int64_t level);
  void activate_links_of(const Flow& moved, std::int64_t level);
  void pop_level(std::int64_t level);
  void saturate(std::int32_t index, std::int64_t level);
  bool is_bottlenecked(Flow& asked, std::int64_t level);
  void freeze(std::int32_t index, std::int64_t level);
  const std::vector<std::int32_t>& changed();

  std::vector<Flow> flows_;
  std::vector<std::int32_t> free_;
  std::vector<Link> links_;
  std::vector<std::int32_t> dirty_links_;
  std::vector<std::int32_t> new_flows_;
  std::int64_t solves_ = 0;
  // The sweep; members keep their memory between solves:
  std::vector<SweepEvent> events_;  ///< a heap, smallest level first
  std::vector<std::int32_t> level_flows_;
  std::vector<std::int32_t> level_links_;
  std::vector<ActiveIncidence> active_incidences_;
  std::vector<std::int32_t> visited_;
  std::vector<std::int64_t> old_rates_;  ///< [visited_]
  std::vector<std::int32_t> changed_;
};

}  // namespace tracecast
