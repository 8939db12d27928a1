#include "sim/network/max_min.hpp"

#include <algorithm>
#include <limits>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kNoShare = std::numeric_limits<std::int64_t>::max();

/// floor(residual / weight), at most kNoShare - 1. Most residuals fit 64 bits, where division is three times faster.
std::int64_t share_of(Wide residual, std::int64_t weight) {
  if (weight == 0) return kNoShare;
  if (residual <= std::numeric_limits<std::uint64_t>::max()) {
    const std::uint64_t share = static_cast<std::uint64_t>(residual) / static_cast<std::uint64_t>(weight);
    return static_cast<std::int64_t>(std::min<std::uint64_t>(share, kNoShare - 1));
  }
  return static_cast<std::int64_t>(std::min<Wide>(residual / wide(weight), kNoShare - 1));
}

}  // namespace

std::int32_t MaxMin::add_link(Bandwidth capacity) {
  TRACECAST_ASSERT(capacity.bytes_per_second > 0 && capacity.bytes_per_second >> 60 == 0,
                   "the capacity of a link is positive, and below an exabyte per second");
  Link added;
  added.capacity = wide(capacity.bytes_per_second) * wide(kWeightOne);
  links_.push_back(std::move(added));
  return static_cast<std::int32_t>(links_.size()) - 1;
}

void MaxMin::mark_dirty(std::int32_t index) {
  if (link(index).dirty) return;
  link(index).dirty = true;
  dirty_links_.push_back(index);
}

std::int32_t MaxMin::add_flow(Bandwidth limit, std::span<const LinkWeight> loads) {
  TRACECAST_ASSERT(limit.bytes_per_second > 0, "the limit of a flow is positive");
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
  added.bottleneck = kNone;
  added.incidences.clear();
  for (const LinkWeight& load : loads) {
    TRACECAST_ASSERT(load.weight > 0, "a flow has a positive weight on each of its links");
    Link& crossed = link(load.link);
    added.incidences.push_back({load.link, static_cast<std::int32_t>(crossed.flows.size()), load.weight});
    crossed.flows.push_back({index, static_cast<std::int32_t>(added.incidences.size()) - 1, load.weight});
    crossed.demand += wide(load.weight) * wide(added.limit);
    mark_dirty(load.link);
  }
  new_flows_.push_back(index);
  return index;
}

void MaxMin::remove_incidence(Link& from, std::int32_t position) {
  const FlowIncidence last = from.flows.back();
  from.flows[static_cast<std::size_t>(position)] = last;
  flow(last.flow).incidences[static_cast<std::size_t>(last.position)].position = position;
  from.flows.pop_back();
}

void MaxMin::remove_flow(std::int32_t index) {
  Flow& removed = flow(index);
  TRACECAST_ASSERT(removed.active, "a flow is removed once");
  for (const LinkIncidence& incidence : removed.incidences) {
    Link& crossed = link(incidence.link);
    crossed.demand -= wide(incidence.weight) * wide(removed.limit);
    mark_dirty(incidence.link);
    remove_incidence(crossed, incidence.position);
  }
  removed.incidences.clear();
  removed.active = false;
  free_.push_back(index);
}

// ---- The sweep -------------------------------------------------------------------------------------------------------

const std::vector<std::int32_t>& MaxMin::solve() {
  if (!outdated()) {
    changed_.clear();
    return changed_;
  }
  ++solves_;
  visited_.clear();
  old_rates_.clear();
  active_incidences_.clear();
  start_sweep();
  while (!events_.empty()) {
    const std::int64_t level = events_.front().level;
    pop_level(level);
    for (const std::int32_t index : level_links_) saturate(index, level);
    for (const std::int32_t index : level_flows_) {
      Flow& asked = flow(index);
      if (asked.frozen) continue;
      if (is_bottlenecked(asked, level)) {
        freeze(index, level);
      } else {
        push_event(asked.limit, index);
        activate_links_of(asked, level);
      }
    }
  }
  return changed();
}

/// In the order of the sweep, so that flows of equal rates keep the order in which they started.
const std::vector<std::int32_t>& MaxMin::changed() {
  changed_.clear();
  for (std::size_t i = 0; i < visited_.size(); ++i)
    if (flow(visited_[i]).rate != old_rates_[i]) changed_.push_back(visited_[i]);
  return changed_;
}

void MaxMin::start_sweep() {
  for (const std::int32_t index : new_flows_)
    if (flow(index).active && visit(index)) push_event(flow(index).limit, index);
  for (const std::int32_t index : dirty_links_) {
    Link& changed = link(index);
    changed.dirty = false;
    if (changed.binds()) {
      activate(index, 0);
    } else if (changed.level != kNone) {
      changed.level = kNone;
      for (const FlowIncidence& incidence : changed.flows) visit_at_old_rate(incidence.flow);
    }
  }
  new_flows_.clear();
  dirty_links_.clear();
}

void MaxMin::push_event(std::int64_t level, std::int32_t index) {
  events_.push_back({level, index});
  std::push_heap(events_.begin(), events_.end(),
                 [](const SweepEvent& a, const SweepEvent& b) { return a.level > b.level; });
}

/// Adds the flow to the sweep. False: it is in the sweep already.
bool MaxMin::visit(std::int32_t index) {
  Flow& reached = flow(index);
  if (reached.last_solve == solves_) return false;
  reached.last_solve = solves_;
  reached.frozen = false;
  reached.first_active = kNone;
  visited_.push_back(index);
  old_rates_.push_back(reached.rate);
  return true;
}

void MaxMin::visit_at_old_rate(std::int32_t index) {
  if (visit(index)) push_event(flow(index).rate, index);
}

/// Adds the link to the sweep from `level` on. Its flows with smaller rates keep them.
void MaxMin::activate(std::int32_t index, std::int64_t level) {
  Link& joined = link(index);
  joined.last_solve = solves_;
  joined.level = kNone;
  joined.residual = joined.capacity;
  joined.weight = 0;
  for (const FlowIncidence& incidence : joined.flows) {
    Flow& each = flow(incidence.flow);
    const bool reached = each.last_solve == solves_;
    if (reached ? each.frozen : each.rate < level) {
      joined.residual -= wide(incidence.weight) * wide(each.rate);
      continue;
    }
    if (!reached) visit_at_old_rate(incidence.flow);
    joined.weight += incidence.weight;
    active_incidences_.push_back({index, each.first_active, incidence.weight});
    each.first_active = static_cast<std::int32_t>(active_incidences_.size()) - 1;
  }
  if (joined.weight > 0) push_event(share_of(joined.residual, joined.weight), ~index);
}

void MaxMin::activate_links_of(const Flow& moved, std::int64_t level) {
  for (const LinkIncidence& incidence : moved.incidences) {
    const Link& crossed = link(incidence.link);
    if (crossed.last_solve != solves_ && crossed.binds()) activate(incidence.link, level);
  }
}

/// Takes the events of this level: flows without a rate, and links whose share is this level.
void MaxMin::pop_level(std::int64_t level) {
  level_links_.clear();
  level_flows_.clear();
  while (!events_.empty() && events_.front().level == level) {
    std::pop_heap(events_.begin(), events_.end(),
                  [](const SweepEvent& a, const SweepEvent& b) { return a.level > b.level; });
    const std::int32_t index = events_.back().index;
    events_.pop_back();
    if (index >= 0) {
      level_flows_.push_back(index);
      continue;
    }
    const Link& asked = link(~index);
    if (asked.weight == 0) continue;
    const std::int64_t share = share_of(asked.residual, asked.weight);
    if (share == level)
      level_links_.push_back(~index);
    else
      push_event(share, index);
  }
}

/// Gives the link's share to all of its flows that have no rate yet.
void MaxMin::saturate(std::int32_t index, std::int64_t level) {
  link(index).level = level;
  for (const FlowIncidence& incidence : link(index).flows) {
    Flow& each = flow(incidence.flow);
    if (each.last_solve != solves_ || each.frozen) continue;
    each.bottleneck = index;
    freeze(incidence.flow, level);
  }
}

/// True if its limit, or the level of a link outside of the sweep, keeps the flow at this rate. A link of the sweep has no
/// level until it is saturated, which freezes its flows.
bool MaxMin::is_bottlenecked(Flow& asked, std::int64_t level) {
  if (asked.limit == level) return true;
  const auto holds = [&](std::int32_t index) { return link(index).level == level; };
  if (asked.bottleneck != kNone && holds(asked.bottleneck)) return true;
  for (const LinkIncidence& incidence : asked.incidences) {
    if (!holds(incidence.link)) continue;
    asked.bottleneck = incidence.link;
    return true;
  }
  return false;
}

void MaxMin::freeze(std::int32_t index, std::int64_t level) {
  Flow& frozen = flow(index);
  frozen.frozen = true;
  for (std::int32_t i = frozen.first_active; i != kNone; i = active_incidences_[static_cast<std::size_t>(i)].next) {
    const ActiveIncidence& at = active_incidences_[static_cast<std::size_t>(i)];
    link(at.link).residual -= wide(at.weight) * wide(level);
    link(at.link).weight -= at.weight;
  }
  if (frozen.rate == level) return;
  frozen.rate = level;
  activate_links_of(frozen, level);
}

}  // namespace tracecast
