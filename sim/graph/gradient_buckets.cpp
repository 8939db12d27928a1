#include "sim/graph/gradient_buckets.hpp"

#include <utility>

namespace tracecast {

void GradientBuckets::add(const Work& work) {
  made_ += work.parameters;
  if (!active_) return;
  const bool expert = work.expert_parameters && data_.context().units.separates_experts();
  std::int64_t& waiting = expert ? expert_ : dense_;
  waiting += work.parameters;
  if (data_.reduces_units()) return;
  if (waiting >= data_.context().units.bucket_size(chunk_.stage, count_ == 0)) flush(work.expert_parameters);
}

void GradientBuckets::unit_done(int unit) {
  data_.add_gradients(writer_, std::exchange(made_, 0), active_);
  if (!data_.reduces_units()) return;
  const ParameterUnits& units = data_.context().units;
  if (!units.has_one_root(chunk_.stage) || !units.is_root(chunk_.stage, unit)) return flush_all();
  root_ += std::exchange(dense_, 0);
}

void GradientBuckets::flush_all() {
  if (!active_) return;
  flush(false);
  flush(true);
}

void GradientBuckets::finish() {
  dense_ += std::exchange(root_, 0);
  flush_all();
}

void GradientBuckets::flush(bool expert) {
  const std::int64_t parameters = std::exchange(expert ? expert_ : dense_, 0);
  if (parameters == 0) return;
  DataParallel::GradientBucket bucket{parameters, expert, chunk_.index, count_, data_.reduces_every_microbatch()};
  if (data_.one_stream_each() && last_was_expert_ == !expert) bucket.after = count_ - 1;
  const EventRef reduced = data_.reduce(writer_, bucket);
  if (!reduced.none()) last_[expert ? 1 : 0] = reduced;
  if (!reduced.none() && data_.reduction_blocks()) writer_.wait(reduced);
  last_was_expert_ = expert;
  ++count_;
}

std::vector<EventRef> GradientBuckets::last_events() const {
  std::vector<EventRef> events;
  for (const EventRef event : last_)
    if (!event.none()) events.push_back(event);
  return events;
}

}  // namespace tracecast
