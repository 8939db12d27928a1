#include "sim/network/fluid.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tracecast {
namespace {

/// Picoseconds until `rest` has moved at `rate`, rounded up.
std::int64_t duration_of(Wide rest, std::int64_t rate) {
  const Wide time = (rest + wide(rate) - 1) / wide(rate);
  return static_cast<std::int64_t>(std::min<Wide>(time, wide(std::numeric_limits<std::int64_t>::max() / 4)));
}

/// At least one byte per second.
Bandwidth mean_rate(Bytes bytes, Duration time) {
  if (time.picoseconds <= 0) return {1};
  const Wide whole = wide(bytes.count) * wide(1'000'000'000'000) / wide(time.picoseconds);
  return {std::max<std::int64_t>(1, static_cast<std::int64_t>(whole))};
}

}  // namespace

Bandwidth rate_alone(const CollectiveCost& cost, const FlowSchedule& schedule) {
  return mean_rate(schedule.critical(), cost.duration - cost.latency);
}

// ---- Shapes ----------------------------------------------------------------------------------------------------------

TransferShapes::TransferShapes(const ClusterLinks& links, FluidOptions options) : links_(links), options_(options) {}

void TransferShapes::add(const LinkPath& path, std::int64_t bytes, std::int64_t count) {
  for (const std::int32_t link : path) {
    std::int64_t& sum = bytes_[static_cast<std::size_t>(link)];
    if (sum == 0) loaded_links_.push_back(link);
    sum += bytes * count;
    if (link < links_.first_cable()) continue;
    std::int64_t& now = on_cable_[static_cast<std::size_t>(link - links_.first_cable())];
    if (now == 0) cables_.push_back(link);
    now += bytes;
  }
}

void TransferShapes::add(const Round& round, const FlowGroup& group, Bandwidth limit) {
  const bool crosses = group.node_count() > 1;
  Bytes largest;
  Bytes largest_outside;
  for (const Flow& flow : round.flows) {
    if (flow.size.count == 0) continue;
    largest = std::max(largest, flow.size);
    if (crosses && flow.size > largest_outside && leaves_domain(links_, group, flow)) largest_outside = flow.size;
    const int parts = parts_of(links_, group, flow);
    for (int part = 0; part < parts; ++part) {
      path_.clear();
      append_route(links_, group, flow, path_, part);
      add(path_, part_size(flow.size, part, parts).count, round.count);
    }
  }
  unit_ += (largest_outside.count > 0 ? largest_outside : largest) * round.count;
  if (cables_.empty()) return;
  const std::int64_t own = duration_of(wide(largest.count) * wide(1'000'000'000'000), limit.bytes_per_second);
  std::int64_t fullest = own;
  for (const std::int32_t cable : cables_) {
    const std::int64_t bytes = std::exchange(on_cable_[static_cast<std::size_t>(cable - links_.first_cable())], 0);
    const Wide rest = wide(bytes) * wide(1'000'000'000'000);
    fullest = std::max(fullest, duration_of(rest, links_.capacity(cable).bytes_per_second));
  }
  cables_.clear();
  cable_delay_ += Duration{fullest - own} * round.count;
}

namespace {

/// The weight, at most the one at which the transfer alone saturates the link at its own limit.
std::int64_t within_cost(Wide weight, Bandwidth capacity, Bandwidth limit) {
  const Wide max = wide(capacity.bytes_per_second) * wide(kWeightOne) / wide(limit.bytes_per_second);
  return static_cast<std::int64_t>(std::min(weight, max));
}

}  // namespace

std::int64_t lone_flow_weight(Bandwidth capacity, Bandwidth limit) {
  return within_cost(wide(kWeightOne), capacity, limit);
}

TransferShape TransferShapes::shape(const CollectiveCost& cost, const FlowSchedule& schedule, const FlowGroup& group) {
  bytes_.resize(static_cast<std::size_t>(links_.count()));
  on_cable_.resize(static_cast<std::size_t>(links_.count() - links_.first_cable()));
  TransferShape shape{cost.latency, cost.duration - cost.latency, {}, {}};
  cable_delay_ = {};
  unit_ = {};
  const Bandwidth alone = rate_alone(cost, schedule);
  schedule.each_round([&](const Round& round) { add(round, group, alone); });
  if (shape.moving.picoseconds > 0 && cable_delay_.picoseconds > 0) {
    shape.collides = true;
    shape.moving += cable_delay_;
  }
  shape.limit = mean_rate(unit_, shape.moving);
  const Wide unit = wide(std::max<std::int64_t>(1, unit_.count));
  if (loaded_links_ != last_loaded_links_) {
    sorted_links_ = loaded_links_;
    std::sort(sorted_links_.begin(), sorted_links_.end());
  }
  for (const std::int32_t link : sorted_links_) {
    const Wide whole = wide(std::exchange(bytes_[static_cast<std::size_t>(link)], 0)) * wide(kWeightOne) / unit;
    const std::int64_t weight = options_.alone_as_costed ? within_cost(whole, links_.capacity(link), shape.limit)
                                                         : static_cast<std::int64_t>(whole);
    if (weight > 0) shape.loads.push_back({link, weight});
  }
  last_loaded_links_.swap(loaded_links_);
  loaded_links_.clear();
  return shape;
}

// ---- Transfers in flight ---------------------------------------------------------------------------------------------

std::int32_t FluidNetwork::solver_link(std::int32_t link) {
  const auto [found, added] = solver_links_.try_emplace(link, solver_.links());
  if (added) {
    solver_.add_link(links_.capacity(link));
    occupancy_.emplace_back();
  }
  return found->second;
}

std::int32_t FluidNetwork::add_kind(const CollectiveCost& cost, const FlowSchedule& schedule, const FlowGroup& group) {
  return add_kind(shapes_.shape(cost, schedule, group));
}

std::int32_t FluidNetwork::add_kind(TransferShape shape) {
  for (LinkWeight& load : shape.loads) load.link = solver_link(load.link);
  const bool fits_alone = std::all_of(shape.loads.begin(), shape.loads.end(),
                                      [&](const LinkWeight& load) { return solver_.carries_alone(load, shape.limit); });
  kinds_.push_back({std::move(shape), fits_alone});
  return static_cast<std::int32_t>(kinds_.size()) - 1;
}

void FluidNetwork::push_event(std::int32_t index, std::int64_t time) {
  InFlight& own = in_flight(index);
  own.next = time;
  queue_.push(time, {index, ++own.version});
}

void FluidNetwork::start(std::int32_t transfer, std::int32_t kind, Duration at) {
  auto index = static_cast<std::int32_t>(in_flight_.size());
  if (free_.empty()) {
    in_flight_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  InFlight& begun = in_flight(index);
  begun.transfer = transfer;
  begun.kind = kind;
  begun.moving = false;
  push_event(index, at.picoseconds + kind_of(begun).latency.picoseconds);
}

void FluidNetwork::begin_moving(std::int32_t index, std::int64_t now, std::vector<std::int32_t>& ended) {
  InFlight& moving = in_flight(index);
  const Kind& kind = kind_of(moving);
  moving.moving = true;
  moving.since = now;
  moving.rate = 0;
  if (kind.moving.picoseconds <= 0) return finish(index, ended);
  if (kind.loads.empty()) return push_event(index, now + kind.moving.picoseconds);
  moving.residual = wide(kind.limit.bytes_per_second) * wide(kind.moving.picoseconds);
  if (moves_alone(kind)) {
    for (const LinkWeight& load : kind.loads) on(load) = {1, index};
    moving.rate = kind.limit.bytes_per_second;
    return push_event(index, now + kind.moving.picoseconds);
  }
  for (const LinkWeight& load : kind.loads) {
    ++on(load).moving;
    if (const std::int32_t other = on(load).alone; other >= 0) solve_for(other);
  }
  solve_for(index);
}

/// True if no transfer moves on its links, and these can carry it at its rate alone.
bool FluidNetwork::moves_alone(const Kind& kind) {
  return kind.fits_alone && std::all_of(kind.loads.begin(), kind.loads.end(),
                                        [this](const LinkWeight& load) { return on(load).moving == 0; });
}

/// Hands a moving transfer to the solver, which finds its rate from now on.
void FluidNetwork::solve_for(std::int32_t index) {
  InFlight& moving = in_flight(index);
  const Kind& kind = kind_of(moving);
  for (const LinkWeight& load : kind.loads)
    if (on(load).alone == index) on(load).alone = -1;
  moving.flow = solver_.add_flow(kind.limit, kind.loads);
  const auto flow = static_cast<std::size_t>(moving.flow);
  if (transfer_of_flow_.size() <= flow) transfer_of_flow_.resize(flow + 1);
  transfer_of_flow_[flow] = index;
}

void FluidNetwork::finish(std::int32_t index, std::vector<std::int32_t>& ended) {
  InFlight& done = in_flight(index);
  const Kind& kind = kind_of(done);
  if (kind.moving.picoseconds > 0)
    for (const LinkWeight& load : kind.loads) on(load) = {on(load).moving - 1, -1};
  if (done.flow >= 0) solver_.remove_flow(std::exchange(done.flow, -1));
  ended.push_back(std::exchange(done.transfer, -1));
  ++done.version;
  free_.push_back(index);
}

std::vector<TransferProgress> FluidNetwork::in_flight() const {
  std::vector<TransferProgress> all;
  for (const InFlight& each : in_flight_)
    if (each.transfer >= 0)
      all.push_back(
          {each.transfer, each.kind, each.moving, each.flow >= 0, each.residual, each.rate, each.since, each.next});
  return all;
}

void FluidNetwork::move_on(Duration by) {
  queue_ = {};
  for (std::size_t index = 0; index < in_flight_.size(); ++index) {
    InFlight& each = in_flight_[index];
    if (each.transfer < 0) continue;
    each.since += by.picoseconds;
    push_event(static_cast<std::int32_t>(index), each.next + by.picoseconds);
  }
}

/// Computes the rates from `now` on, and the ends that follow from them.
void FluidNetwork::share_links(std::int64_t now) {
  for (const std::int32_t flow : solver_.solve()) {
    const std::int32_t index = transfer_of_flow_[static_cast<std::size_t>(flow)];
    InFlight& changed = in_flight(index);
    changed.residual -= wide(changed.rate) * wide(now - changed.since);
    changed.since = now;
    changed.rate = solver_.rate(flow).bytes_per_second;
    ++changed.version;  // cancels its pending event
    if (changed.rate > 0) push_event(index, now + duration_of(changed.residual, changed.rate));
  }
}

/// Thousands of transfers may begin or end at one instant, each with its data elsewhere in memory: it is fetched in advance.
[[gnu::always_inline]] inline void FluidNetwork::fetch_ahead() const {
  const Event* const near = queue_.ahead(4);
  if (near == nullptr) return;  // as at most instants
  if (const Event* const event = queue_.ahead(12))
    __builtin_prefetch(&in_flight_[static_cast<std::size_t>(event->index)]);
  if (const Event* const event = queue_.ahead(8))
    __builtin_prefetch(&kinds_[static_cast<std::size_t>(in_flight_[static_cast<std::size_t>(event->index)].kind)]);
  for (const LinkWeight& load : kind_of(in_flight_[static_cast<std::size_t>(near->index)]).loads) {
    __builtin_prefetch(&occupancy_[static_cast<std::size_t>(load.link)]);
    solver_.fetch(load.link);
  }
}

bool FluidNetwork::advance(Duration& now, std::vector<std::int32_t>& ended, Duration limit) {
  ended.clear();
  const auto in_time = [&] { return limit == kNoLimit || queue_.peek() <= limit.picoseconds; };
  while (!queue_.empty() && ended.empty() && in_time()) {
    const std::int64_t time = queue_.front();
    bool changes = false;
    while (queue_.more_now()) {
      fetch_ahead();
      const Event event = queue_.pop();
      if (in_flight(event.index).version != event.version) continue;
      changes = true;
      ++events_;
      in_flight(event.index).moving ? finish(event.index, ended) : begin_moving(event.index, time, ended);
    }
    if (changes && solver_.outdated()) share_links(time);
    now = {time};
  }
  return !ended.empty();
}

}  // namespace tracecast
