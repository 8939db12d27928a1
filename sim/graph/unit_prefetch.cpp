#include "sim/graph/unit_prefetch.hpp"

#include <algorithm>

namespace tracecast {

UnitPrefetch::UnitPrefetch(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, DataParallel::UnitPass pass)
    : data_(data),
      writer_(writer),
      chunk_(chunk),
      backward_(pass == DataParallel::UnitPass::backward),
      slots_(data.gather_slots(backward_)) {
  for (int unit = 0; unit < data_.context().units.count(chunk_.stage); ++unit)
    if (data_.gathers_unit(chunk_.stage, unit, pass)) units_.push_back(unit);
  if (backward_) std::reverse(units_.begin(), units_.end());
  // Behind forwards that gather nothing on this stream, the first gather of a backward waits for it: else it would run ahead by all
  // of them.
  const Parallel& parallel = data_.context().plan.parallel;
  const bool follows_none = backward_ && (!data_.gathers_every_forward() || parallel.reshard_group > 0);
  gather_next(follows_none ? std::vector{writer_.mark()} : std::vector<EventRef>{});
  advance();
}

std::size_t UnitPrefetch::allowed(std::size_t used) const {
  std::size_t count = std::min(units_.size(), used + 2);
  const BuildContext& context = data_.context();
  if (!rules_of(context.plan.parallel).gathers_elements) return count;
  std::int64_t ahead = 0;
  for (std::size_t i = used + 1; i < units_.size(); ++i) {
    ahead += context.units.gathered(chunk_.stage, units_[i]).parameters.total();
    if (ahead > context.units.prefetch_size()) break;
    count = std::max(count, i + 1);
  }
  return count;
}

void UnitPrefetch::advance() {
  const std::size_t until = allowed(used_);
  if (gathered_.size() >= until) return;
  const EventRef now = writer_.mark();
  while (gathered_.size() < until) gather_next({now});
}

void UnitPrefetch::before(int unit) {
  if (!waits_for(unit)) return;
  for (EventRef event : gathered_[used_]) writer_.wait(event);
  data_.copy_parameters_out(writer_, gathered_with(unit), slots_);
}

Bucket UnitPrefetch::gathered_with(int unit) const {
  const ParameterUnits& units = data_.context().units;
  Bucket bucket = units.gathered(chunk_.stage, unit);
  if (!units.has_one_root(chunk_.stage) || !units.is_root(chunk_.stage, unit)) return bucket;
  return bucket += units.gathered(chunk_.stage, unit == 0 ? units.head(chunk_.stage) : 0);
}

void UnitPrefetch::after(int unit) {
  if (!waits_for(unit)) return;
  ++used_;
  advance();
}

void UnitPrefetch::gather_next(const std::vector<EventRef>& after) {
  if (gathered_.size() == units_.size()) return;
  const int unit = units_[gathered_.size()];
  EventRef dense;
  EventRef expert;
  // The first gather waits for nothing, so behind chunks of one unit it runs ahead of the computation: its events are not local.
  if (gathered_.empty()) {
    dense = event("gathered", "gathered again", unit);
    expert = event("experts gathered", "experts gathered again", unit);
  }
  const Bucket bucket = gathered_with(unit);
  std::vector<EventRef> ready = after;
  if (data_.offloads_parameters())
    ready = {data_.shard_from_host(writer_, bucket, after, event("shard arrived", "shard arrived again", unit))};
  // Experts have another communicator, but the same CUDA stream.
  if (!gathered_.empty() && gathered_.back().size() > 1) ready.push_back(gathered_.back().back());
  gathered_.push_back(data_.gather(writer_, bucket, ready, dense, expert, slots_));
}

EventRef UnitPrefetch::event(const char* forward, const char* backward, int unit) const {
  return data_.context().rank_event(backward_ ? backward : forward, chunk_.index, unit, true);
}

}  // namespace tracecast
