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
  added.crossings.clear();
  for (const LinkWeight& load : loads) {
    TRACECAST_ASSERT(load.weight > 0, "a flow loads the links it names");
    Link& crossed = link(load.link);
    added.crossings.push_back({load.link, static_cast<std::int32_t>(crossed.flows.size()), load.weight});
    crossed.flows.push_back({index, static_cast<std::int32_t>(added.crossings.size()) - 1});
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

void MaxMin::reach_flow(std::int32_t index) {
  Flow& reached = flow(index);
  if (reached.mark == solves_) return;
  reached.mark = solves_;
  reached.fixed = false;
  part_flows_.push_back(index);
}

void MaxMin::reach_link(std::int32_t index) {
  Link& reached = link(index);
  if (reached.mark == solves_ || !reached.binds()) return;
  reached.mark = solves_;
  reached.local = static_cast<std::int32_t>(fillings_.size());
  fillings_.push_back({index, 0, reached.capacity});
  for (const Passenger& passenger : reached.flows) reach_flow(passenger.flow);
}

/// The flows and links that the changes since the last solve can reach: over links that bind, or did so.
void MaxMin::collect_part() {
  part_flows_.clear();
  fillings_.clear();
  for (const std::int32_t index : new_flows_)
    if (flow(index).active) reach_flow(index);
  for (const std::int32_t index : touched_links_) {
    Link& changed = link(index);
    changed.touched = false;
    if (changed.bound)
      for (const Passenger& passenger : changed.flows) reach_flow(passenger.flow);
    changed.bound = changed.binds();
  }
  new_flows_.clear();
  touched_links_.clear();
  for (std::size_t i = 0; i < part_flows_.size(); ++i)
    for (const Crossing& crossing : flow(part_flows_[i]).crossings) reach_link(crossing.link);
}

const std::vector<std::int32_t>& MaxMin::solve() {
  ++solves_;
  collect_part();
  flows_solved_ += static_cast<std::int64_t>(part_flows_.size());
  changed_ = part_flows_;
  old_rates_.clear();
  for (const std::int32_t index : changed_) old_rates_.push_back(flow(index).rate);
  fill_part();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < changed_.size(); ++i)
    if (flow(changed_[i]).rate != old_rates_[i]) changed_[kept++] = changed_[i];
  changed_.resize(kept);
  return changed_;
}

void MaxMin::fill_part() {
  for (const std::int32_t index : part_flows_)
    for (const Crossing& crossing : flow(index).crossings)
      if (link(crossing.link).mark == solves_)
        fillings_[static_cast<std::size_t>(link(crossing.link).local)].weight += crossing.weight;
  shares_.clear();
  for (const Filling& filling : fillings_) shares_.push_back(share_of(filling.rest, filling.weight));
  std::sort(part_flows_.begin(), part_flows_.end(),
            [this](std::int32_t a, std::int32_t b) { return flow(a).limit < flow(b).limit; });

  for (std::size_t next = 0;;) {
    while (next < part_flows_.size() && flow(part_flows_[next]).fixed) ++next;
    if (next == part_flows_.size()) return;
    std::int64_t share = flow(part_flows_[next]).limit;
    for (const std::int64_t each : shares_) share = std::min(share, each);
    smallest_.clear();
    for (std::size_t i = 0; i < shares_.size(); ++i)
      if (shares_[i] == share) smallest_.push_back(static_cast<std::int32_t>(i));
    for (; next < part_flows_.size() && flow(part_flows_[next]).limit == share; ++next) fix(part_flows_[next], share);
    for (const std::int32_t local : smallest_) fix_flows_of(local, share);
    for (const std::int32_t local : dirty_) {
      const Filling& filling = fillings_[static_cast<std::size_t>(local)];
      shares_[static_cast<std::size_t>(local)] = share_of(filling.rest, filling.weight);
    }
    dirty_.clear();
  }
}

void MaxMin::fix_flows_of(std::int32_t local, std::int64_t share) {
  const Link& full = link(fillings_[static_cast<std::size_t>(local)].link);
  for (const Passenger& passenger : full.flows) fix(passenger.flow, share);
}

void MaxMin::fix(std::int32_t index, std::int64_t share) {
  Flow& fixed = flow(index);
  if (fixed.fixed) return;
  fixed.fixed = true;
  fixed.rate = share;
  for (const Crossing& crossing : fixed.crossings)
    if (link(crossing.link).mark == solves_) take(link(crossing.link).local, crossing.weight, share);
}

void MaxMin::take(std::int32_t local, std::int64_t weight, std::int64_t share) {
  Filling& filling = fillings_[static_cast<std::size_t>(local)];
  filling.rest -= wide(weight) * wide(share);
  filling.weight -= weight;
  dirty_.push_back(local);
}

}  // namespace tracecast
