#include "sim/graph/data_parallel.hpp"

#include <algorithm>
#include <utility>

namespace tracecast {

std::int64_t DataParallel::own_parameters(const Bucket& all) const {
  if (!sharded(1)) return all.trained();
  const int dense = context_.table.placement(Slot::gradients).ranks;
  const int expert = context_.table.placement(Slot::expert_gradients).ranks;
  return (all.trained_dense + dense - 1) / dense + (all.trained_expert + expert - 1) / expert;
}

bool DataParallel::gathers_unit(const Stage& stage, int unit, bool backward) const {
  if (!active() || !sharded(3)) return false;
  return !backward || context_.plan.gathers_again(context_.units.is_root(stage, unit));
}

DataParallel::GatherSlots DataParallel::gather_slots(bool backward) const {
  const bool smaller = backward && context_.plan.parallel.reshard_group > 0;
  return smaller ? GatherSlots{Slot::resharded, Slot::expert_resharded} : GatherSlots{};
}

std::vector<EventRef> DataParallel::gather(TemplateWriter& writer, const Bucket& bucket,
                                           const std::vector<EventRef>& after, EventRef dense_event,
                                           EventRef expert_event, GatherSlots slots) {
  std::vector<EventRef> events;
  const auto issue = [&](Slot slot, Bytes size, EventRef event) {
    if (size.count == 0 || context_.table.placement(slot).ranks <= 1) return;
    const CollectiveCall call{Collective::all_gather, size, Algorithm::automatic, Protocol::automatic};
    events.push_back(writer.collective(Lane::parameters, Traffic::parameters, slot, call, after, event));
  };
  issue(slots.dense, bucket.dense_gathered, dense_event);
  issue(slots.expert, bucket.expert_gathered, expert_event);
  return events;
}

void DataParallel::gather_buckets(TemplateWriter& writer, const Chunk& chunk) {
  const std::vector<Bucket> buckets = context_.units.buckets(chunk.stage);
  for (std::size_t i = 0; i < buckets.size(); ++i)
    gather(writer, buckets[i], {}, context_.rank_event("parameters", chunk.index, static_cast<int>(i), false),
           context_.rank_event("expert parameters", chunk.index, static_cast<int>(i), false));
}

void DataParallel::wait_for_bucket(TemplateWriter& writer, const Chunk& chunk, int unit) {
  const std::vector<Bucket> buckets = context_.units.buckets(chunk.stage);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].first_unit != unit) continue;
    if (buckets[i].dense_gathered.count > 0 && context_.table.placement(Slot::parameters).ranks > 1)
      writer.wait(context_.rank_event("parameters", chunk.index, static_cast<int>(i), false));
    if (buckets[i].expert_gathered.count > 0 && context_.table.placement(Slot::expert_parameters).ranks > 1)
      writer.wait(context_.rank_event("expert parameters", chunk.index, static_cast<int>(i), false));
  }
}

EventRef DataParallel::reduce(TemplateWriter& writer, const GradientBucket& bucket) {
  const Slot slot = bucket.expert ? Slot::expert_gradients : Slot::gradients;
  const bool group = context_.table.placement(slot).ranks > 1;
  const bool replicas = !bucket.expert && context_.table.placement(Slot::replicas).ranks > 1;
  if (!group && !replicas) return {};
  const auto event = [&](const char* purpose) {
    return context_.rank_event(purpose, bucket.chunk, bucket.index, bucket.every_microbatch);
  };
  EventRef done = event("gradients ready");
  writer.mark_as(done);
  const Bytes size{bucket.parameters * gradient_bytes()};
  if (group) {
    const Collective what = sharded(1) ? Collective::reduce_scatter : Collective::all_reduce;
    done =
        writer.collective(Lane::gradients, Traffic::gradients, slot,
                          {what, size, Algorithm::automatic, Protocol::automatic}, {done}, event("gradients reduced"));
  }
  if (replicas) {
    const Bytes shard = size / context_.table.placement(slot).ranks;
    done = writer.collective(Lane::replicas, Traffic::gradients, Slot::replicas,
                             {Collective::all_reduce, shard, Algorithm::automatic, Protocol::automatic}, {done},
                             event("gradients replicated"));
  }
  return done;
}

UnitPrefetch::UnitPrefetch(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, bool backward)
    : data_(data), writer_(writer), chunk_(chunk), backward_(backward), slots_(data.gather_slots(backward)) {
  for (int unit = 0; unit < data_.context().units.count(chunk_.stage); ++unit)
    if (data_.gathers_unit(chunk_.stage, unit, backward)) units_.push_back(unit);
  if (backward) std::reverse(units_.begin(), units_.end());
  gather_next({});
  if (units_.size() > 1) gather_next({writer_.mark()});
}

void UnitPrefetch::before(int unit) {
  if (!waits_for(unit)) return;
  for (EventRef event : gathered_[used_]) writer_.wait(event);
}

void UnitPrefetch::after(int unit) {
  if (!waits_for(unit)) return;
  ++used_;
  if (gathered_.size() < units_.size() && gathered_.size() < used_ + kInFlight) gather_next({writer_.mark()});
}

void UnitPrefetch::gather_next(const std::vector<EventRef>& after) {
  if (gathered_.size() == units_.size()) return;
  const int unit = units_[gathered_.size()];
  EventRef dense;
  EventRef expert;
  if (units_.size() <= kInFlight) {
    dense = data_.context().rank_event(backward_ ? "gathered again" : "gathered", chunk_.index, unit, true);
    expert =
        data_.context().rank_event(backward_ ? "experts gathered again" : "experts gathered", chunk_.index, unit, true);
  }
  const Bucket bucket = data_.context().units.unit(chunk_.stage, unit);
  gathered_.push_back(data_.gather(writer_, bucket, after, dense, expert, slots_));
}

void GradientBuckets::add(const Work& work) {
  if (!active_) return;
  std::int64_t& waiting = work.expert_parameters ? expert_ : dense_;
  waiting += work.parameters;
  if (waiting >= data_.context().units.bucket_size()) flush(work.expert_parameters);
}

void GradientBuckets::unit_done() {
  if (data_.sharded(3)) flush_all();
}

void GradientBuckets::flush_all() {
  if (!active_) return;
  flush(false);
  flush(true);
}

void GradientBuckets::flush(bool expert) {
  const std::int64_t parameters = std::exchange(expert ? expert_ : dense_, 0);
  if (parameters == 0) return;
  const EventRef reduced =
      data_.reduce(writer_, {parameters, expert, chunk_, count_, data_.reduces_every_microbatch()});
  if (!reduced.none()) last_ = {reduced};
  ++count_;
}

}  // namespace tracecast
