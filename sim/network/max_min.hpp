/// \file
/// Max-min fair rates of flows that share links, on integers.
///
///   for every link l:  sum over flows f of weight(f, l) x rate(f)  <=  capacity(l)
///   for every flow f:  rate(f) <= limit(f)
///
/// and no rate can grow without another one that is not larger shrinking. Links whose flows could all run at their limits
/// (sum of weight x limit <= capacity) never bind and are left out; the others are filled in synchronous rounds: the
/// smallest share of all, floor(rest / summed weight) of a link or the limit of a flow, is given to every flow of every
/// link that has exactly this share, then taken off their other links at once. This share is the level of these links.
///
/// Everything is an integer: rates in bytes per second, weights in 2^-20, rests in 128 bits; one division per link and
/// round. So rates depend neither on the order of flows and links nor on whether n equal flows are given as n or as one of
/// n times the weight on each link they share.
///
/// A solve repeats only the rounds of links that a change can move, and gives the bits of solving all:
///
/// - Levels grow from round to round: a link with rest >= s x weight keeps that when flows are given s, and where the
///   floor was above s it stays above. So each level is one round, and what happens in it depends on the rates below it only:
///
///     level(l) = s   where   floor((capacity - sum of weight x rate of its flows below s) / summed weight of the others) = s
///     rate(f)  = the smallest of its limit and the levels of its links
///
///   By induction over levels, one assignment of rates satisfies this, and the rounds find it.
/// - So the sweep goes up the levels with those links alone for which some flow came, went, or got another rate. A link
///   outside of it has its old level, a flow that crosses no link of it its old rate. A flow of the sweep keeps its old
///   rate if, when the sweep comes there, its limit or the level of a link outside holds it still; if not, or if a link of the sweep
///   gives it less, its other links join the sweep at this level: below it they have seen nothing change.
///
/// Source: water filling (Bertsekas & Gallager, Data Networks 6.5.2); rounding, rounds and sweep are ours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Weight 1: a flow that loads a link with its whole rate.
inline constexpr std::int64_t kWeightOne = std::int64_t{1} << 20;

/// How much of a link a flow of rate 1 takes, in units of 1 / kWeightOne.
struct LinkWeight {
  std::int32_t link = 0;
  std::int64_t weight = kWeightOne;
  auto operator<=>(const LinkWeight&) const = default;
};

class MaxMin {
 public:
  /// Returns the link's number: 0, 1, 2 …   Requires 0 < capacity < 2^50
  std::int32_t add_link(Bandwidth capacity);

  /// Returns the flow's number; numbers of removed flows are used again.
  /// Requires limit > 0; every link at most once; weights > 0, their sum on one link below 2^62 / its capacity's share
  std::int32_t add_flow(Bandwidth limit, std::span<const LinkWeight> loads);
  void remove_flow(std::int32_t flow);

  /// Brings all rates up to date. Returns the flows whose rate is another than after the last call, new ones included.
  const std::vector<std::int32_t>& solve();

  /// As of the last solve().
  Bandwidth rate(std::int32_t flow) const { return {flows_[static_cast<std::size_t>(flow)].rate}; }
  std::int32_t links() const { return static_cast<std::int32_t>(links_.size()); }

  /// Flows that solve() has looked at so far: what the work grows with.
  std::int64_t flows_solved() const { return flows_solved_; }

 private:
  static constexpr std::int32_t kNone = -1;

  /// One crossing of a flow and a link, seen from the flow.
  struct Crossing {
    std::int32_t link;
    std::int32_t place;  ///< in Link::flows
    std::int64_t weight;
  };
  struct Flow {
    std::int64_t limit = 0;
    std::int64_t rate = 0;
    std::int64_t mark = 0;         ///< last solve whose sweep has reached it
    std::int32_t holder = kNone;   ///< the link that gave it its rate; kNone, or one that does no more: ask all
    std::int32_t waiting = kNone;  ///< in the sweep: first of its list in waits_
    bool active = false;
    bool fixed = false;  ///< in the sweep: has its rate
    std::vector<Crossing> crossings;
  };
  /// The same crossing, seen from the link.
  struct Passenger {
    std::int32_t flow;
    std::int32_t crossing;  ///< in Flow::crossings
    std::int64_t weight;
  };
  struct Link {
    Wide capacity = 0;  ///< bytes per second x kWeightOne
    Wide demand = 0;    ///< sum of weight x limit
    std::int64_t level = kNone;
    std::int64_t mark = 0;    ///< last solve whose sweep it joined
    Wide rest = 0;            ///< in the sweep: of flows that have their rate
    std::int64_t weight = 0;  ///< in the sweep: of the others
    bool touched = false;
    std::vector<Passenger> flows;
    bool binds() const { return demand > capacity; }
  };
  /// A flow without a rate and a link of the sweep that it crosses.
  struct Wait {
    std::int32_t link;
    std::int32_t next;  ///< of the same flow
    std::int64_t weight;
  };
  /// What the sweep looks at when it comes to a level: flow `index`, or link ~`index`, whose share was `level` or more.
  struct Due {
    std::int64_t level;
    std::int32_t index;
  };

  Flow& flow(std::int32_t index) { return flows_[static_cast<std::size_t>(index)]; }
  Link& link(std::int32_t index) { return links_[static_cast<std::size_t>(index)]; }
  void touch(std::int32_t index);
  void leave(Link& from, std::int32_t place);
  void begin_sweep();
  void expect(std::int64_t level, std::int32_t index);
  bool reach(std::int32_t index);
  void reach_at_old_rate(std::int32_t index);
  void join(std::int32_t index, std::int64_t level);
  void join_links_of(const Flow& moved, std::int64_t level);
  void collect_due(std::int64_t level);
  void fill(std::int32_t index, std::int64_t level);
  bool held(Flow& asked, std::int64_t level);
  void fix(std::int32_t index, std::int64_t level);
  const std::vector<std::int32_t>& changed();

  std::vector<Flow> flows_;
  std::vector<std::int32_t> free_;
  std::vector<Link> links_;
  std::vector<std::int32_t> touched_links_;
  std::vector<std::int32_t> new_flows_;
  std::int64_t solves_ = 0;
  std::int64_t flows_solved_ = 0;
  // The sweep, kept between solves for its memory:
  std::vector<Due> due_;  ///< a heap, smallest level first
  std::vector<std::int32_t> due_flows_;
  std::vector<std::int32_t> due_links_;
  std::vector<Wait> waits_;
  std::vector<std::int32_t> reached_;
  std::vector<std::int64_t> old_rates_;  ///< [reached_]
  std::vector<std::int32_t> changed_;
};

}  // namespace tracecast
