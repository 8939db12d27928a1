/// Max-min fair rates of flows that share links, on integers.
///
///   for every link l:  sum over flows f of weight(f, l) x rate(f)  <=  capacity(l)
///   for every flow f:  rate(f) <= limit(f)
///
/// and no rate can grow without another one that is not larger shrinking. Links whose flows could all run at their limits
/// (sum of weight x limit <= capacity) never bind and are left out; the others are filled in synchronous rounds: the
/// smallest share of all, floor(rest / summed weight) of a link or the limit of a flow, is given to every flow of every
/// link that has exactly this share, then taken off their other links at once.
///
/// Everything is an integer: rates in bytes per second, weights in 2^-20, rests in 128 bits; one division per link and
/// round. So rates depend neither on the order of flows and links nor on whether n equal flows are given as n or as one of
/// n times the weight on each link they share, and solving only the part that a change can reach gives the same bits as
/// solving all.
///
/// Source: water filling (Bertsekas & Gallager, Data Networks 6.5.2); rounding and rounds are ours.
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
  /// One crossing of a flow and a link, seen from the flow.
  struct Crossing {
    std::int32_t link;
    std::int32_t place;  ///< in Link::flows
    std::int64_t weight;
  };
  struct Flow {
    std::int64_t limit = 0;
    std::int64_t rate = 0;
    bool active = false;
    bool fixed = false;     ///< in the solve that runs
    std::int64_t mark = 0;  ///< last solve that reached it
    std::vector<Crossing> crossings;
  };
  /// The same crossing, seen from the link.
  struct Passenger {
    std::int32_t flow;
    std::int32_t crossing;  ///< in Flow::crossings
  };
  struct Link {
    Wide capacity = 0;  ///< bytes per second x kWeightOne
    Wide demand = 0;    ///< sum of weight x limit
    bool touched = false;
    bool bound = false;       ///< could bind at the last solve
    std::int64_t mark = 0;    ///< last solve that reached it
    std::int32_t local = -1;  ///< its number in the part that is solved
    std::vector<Passenger> flows;
    bool binds() const { return demand > capacity; }
  };
  /// A link in the part that is solved.
  struct Filling {
    std::int32_t link;
    std::int64_t weight;  ///< of flows without a rate
    Wide rest;
  };

  Flow& flow(std::int32_t index) { return flows_[static_cast<std::size_t>(index)]; }
  Link& link(std::int32_t index) { return links_[static_cast<std::size_t>(index)]; }
  void touch(std::int32_t index);
  void leave(Link& from, std::int32_t place);
  void reach_flow(std::int32_t index);
  void reach_link(std::int32_t index);
  void collect_part();
  void fill_part();
  void fix_flows_of(std::int32_t local, std::int64_t share);
  void fix(std::int32_t index, std::int64_t share);
  void take(std::int32_t local, std::int64_t weight, std::int64_t share);

  std::vector<Flow> flows_;
  std::vector<std::int32_t> free_;
  std::vector<Link> links_;
  std::vector<std::int32_t> touched_links_;
  std::vector<std::int32_t> new_flows_;
  std::int64_t solves_ = 0;
  std::int64_t flows_solved_ = 0;
  // The part that is solved, kept between solves for its memory:
  std::vector<std::int32_t> part_flows_;  // ascending by limit when it is filled
  std::vector<std::int64_t> old_rates_;   // [part_flows_ before sorting]
  std::vector<Filling> fillings_;
  std::vector<std::int64_t> shares_;  // [filling]
  std::vector<std::int32_t> smallest_;
  std::vector<std::int32_t> dirty_;
  std::vector<std::int32_t> changed_;
};

}  // namespace tracecast
