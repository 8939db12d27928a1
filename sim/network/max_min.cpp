#include "sim/network/max_min.hpp"

#include <algorithm>
#include <limits>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kNoShare = std::numeric_limits<std::int64_t>::max();

/// floor(rest / weight), at most kNoShare - 1. Most rests fit 64 bits, where division is three times faster.
std::int64_t share_of(Wide rest, std::int64_t weight) {
  if (weight == 0) return kNoShare;
  if (rest <= std::numeric_limits<std::uint64_t>::max()) {
    const std::uint64_t share = static_cast<std::uint64_t>(rest) / static_cast<std::uint64_t>(weight);
    return static_cast<std::int64_t>(std::min<std::uint64_t>(share, kNoShare - 1));
  }
  return static_cast<std::int64_t>(std::min<Wide>(rest / wide(weight), kNoShare - 1));
}

}  // namespace

std::int32_t MaxMin::add_link(Bandwidth capacity) {
  TRACECAST_ASSERT(capacity.bytes_per_second > 0 && capacity.bytes_per_second >> 50 == 0,
                   "a link carries something, and less than a petabyte per second");
  Link added;
  added.capacity = wide(capacity.bytes_per_second) * wide(kWeightOne);
  links_.push_back(std::move(added));
  return static_cast<std::int32_t>(links_.size()) - 1;
}

void MaxMin::touch(std::int32_t index) {
  if (link(index).touched) return;
  link(index).touched = true;
  touched_links_.push_back(index);
}

std::int32_t MaxMin::add_flow(Bandwidth limit, std::span<const LinkWeight> loads) {
  TRACECAST_ASSERT(limit.bytes_per_second > 0, "a flow may move");
  std::int32_t index = static_cast<std::int32_t>(flows_.size());
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Flow& added = flow(index);
  added.limit = limit.bytes_per_second;
  added.rate = 0;
  added.active = true;
  added.holder = kNone;
  added.crossings.clear();
  for (const LinkWeight& load : loads) {
    TRACECAST_ASSERT(load.weight > 0, "a flow loads the links it names");
    Link& crossed = link(load.link);
    added.crossings.push_back({load.link, static_cast<std::int32_t>(crossed.flows.size()), load.weight});
    crossed.flows.push_back({index, static_cast<std::int32_t>(added.crossings.size()) - 1, load.weight});
    crossed.demand += wide(load.weight) * wide(added.limit);
    touch(load.link);
  }
  new_flows_.push_back(index);
  return index;
}

void MaxMin::leave(Link& from, std::int32_t place) {
  const Passenger last = from.flows.back();
  from.flows[static_cast<std::size_t>(place)] = last;
  flow(last.flow).crossings[static_cast<std::size_t>(last.crossing)].place = place;
  from.flows.pop_back();
}

void MaxMin::remove_flow(std::int32_t index) {
  Flow& removed = flow(index);
  TRACECAST_ASSERT(removed.active, "a flow is removed once");
  for (const Crossing& crossing : removed.crossings) {
    Link& crossed = link(crossing.link);
    crossed.demand -= wide(crossing.weight) * wide(removed.limit);
    touch(crossing.link);
    leave(crossed, crossing.place);
  }
  removed.crossings.clear();
  removed.active = false;
  free_.push_back(index);
}

// ---- The sweep -------------------------------------------------------------------------------------------------------

const std::vector<std::int32_t>& MaxMin::solve() {
  ++solves_;
  reached_.clear();
  old_rates_.clear();
  waits_.clear();
  begin_sweep();
  while (!due_.empty()) {
    const std::int64_t level = due_.front().level;
    collect_due(level);
    for (const std::int32_t index : due_links_) fill(index, level);
    for (const std::int32_t index : due_flows_) {
      Flow& asked = flow(index);
      if (asked.fixed) continue;
      if (held(asked, level)) {
        fix(index, level);
      } else {
        expect(asked.limit, index);
        join_links_of(asked, level);
      }
    }
  }
  flows_solved_ += static_cast<std::int64_t>(reached_.size());
  return changed();
}

/// In the order in which the sweep reached them: who waits for equal flows goes on in the order in which they began.
const std::vector<std::int32_t>& MaxMin::changed() {
  changed_.clear();
  for (std::size_t i = 0; i < reached_.size(); ++i)
    if (flow(reached_[i]).rate != old_rates_[i]) changed_.push_back(reached_[i]);
  return changed_;
}

void MaxMin::begin_sweep() {
  for (const std::int32_t index : new_flows_)
    if (flow(index).active && reach(index)) expect(flow(index).limit, index);
  for (const std::int32_t index : touched_links_) {
    Link& changed = link(index);
    changed.touched = false;
    if (changed.binds()) {
      join(index, 0);
    } else if (changed.level != kNone) {
      changed.level = kNone;
      for (const Passenger& passenger : changed.flows) reach_at_old_rate(passenger.flow);
    }
  }
  new_flows_.clear();
  touched_links_.clear();
}

void MaxMin::expect(std::int64_t level, std::int32_t index) {
  due_.push_back({level, index});
  std::push_heap(due_.begin(), due_.end(), [](const Due& a, const Due& b) { return a.level > b.level; });
}

/// False: the sweep has reached it before.
bool MaxMin::reach(std::int32_t index) {
  Flow& reached = flow(index);
  if (reached.mark == solves_) return false;
  reached.mark = solves_;
  reached.fixed = false;
  reached.waiting = kNone;
  reached_.push_back(index);
  old_rates_.push_back(reached.rate);
  return true;
}

void MaxMin::reach_at_old_rate(std::int32_t index) {
  if (reach(index)) expect(flow(index).rate, index);
}

/// The link takes part from `level` on: its flows of smaller rates are those that it has had.
void MaxMin::join(std::int32_t index, std::int64_t level) {
  Link& joined = link(index);
  joined.mark = solves_;
  joined.level = kNone;
  joined.rest = joined.capacity;
  joined.weight = 0;
  for (const Passenger& passenger : joined.flows) {
    Flow& crossing = flow(passenger.flow);
    const bool reached = crossing.mark == solves_;
    if (reached ? crossing.fixed : crossing.rate < level) {
      joined.rest -= wide(passenger.weight) * wide(crossing.rate);
      continue;
    }
    if (!reached) reach_at_old_rate(passenger.flow);
    joined.weight += passenger.weight;
    waits_.push_back({index, crossing.waiting, passenger.weight});
    crossing.waiting = static_cast<std::int32_t>(waits_.size()) - 1;
  }
  if (joined.weight > 0) expect(share_of(joined.rest, joined.weight), ~index);
}

void MaxMin::join_links_of(const Flow& moved, std::int64_t level) {
  for (const Crossing& crossing : moved.crossings) {
    const Link& crossed = link(crossing.link);
    if (crossed.mark != solves_ && crossed.binds()) join(crossing.link, level);
  }
}

/// Flows without a rate that are to be looked at on this level, and links whose share it is.
void MaxMin::collect_due(std::int64_t level) {
  due_links_.clear();
  due_flows_.clear();
  while (!due_.empty() && due_.front().level == level) {
    std::pop_heap(due_.begin(), due_.end(), [](const Due& a, const Due& b) { return a.level > b.level; });
    const std::int32_t index = due_.back().index;
    due_.pop_back();
    if (index >= 0) {
      due_flows_.push_back(index);
      continue;
    }
    const Link& asked = link(~index);
    if (asked.weight == 0) continue;
    const std::int64_t share = share_of(asked.rest, asked.weight);
    if (share == level)
      due_links_.push_back(~index);
    else
      expect(share, index);
  }
}

/// Gives the link's share to all of its flows that have none yet.
void MaxMin::fill(std::int32_t index, std::int64_t level) {
  link(index).level = level;
  for (const Passenger& passenger : link(index).flows) {
    Flow& crossing = flow(passenger.flow);
    if (crossing.mark != solves_ || crossing.fixed) continue;
    crossing.holder = index;
    fix(passenger.flow, level);
  }
}

/// By its limit, or by a link outside of the sweep: one that joined has no level until it is filled, which fixes its flows.
bool MaxMin::held(Flow& asked, std::int64_t level) {
  if (asked.limit == level) return true;
  const auto holds = [&](std::int32_t index) { return link(index).level == level; };
  if (asked.holder != kNone && holds(asked.holder)) return true;
  for (const Crossing& crossing : asked.crossings) {
    if (!holds(crossing.link)) continue;
    asked.holder = crossing.link;
    return true;
  }
  return false;
}

void MaxMin::fix(std::int32_t index, std::int64_t level) {
  Flow& fixed = flow(index);
  fixed.fixed = true;
  for (std::int32_t wait = fixed.waiting; wait != kNone; wait = waits_[static_cast<std::size_t>(wait)].next) {
    const Wait& at = waits_[static_cast<std::size_t>(wait)];
    link(at.link).rest -= wide(at.weight) * wide(level);
    link(at.link).weight -= at.weight;
  }
  if (fixed.rate == level) return;
  fixed.rate = level;
  join_links_of(fixed, level);
}

}  // namespace tracecast
