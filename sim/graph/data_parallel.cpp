#include "sim/graph/data_parallel.hpp"

#include <utility>

namespace tracecast {

std::int64_t DataParallel::own_parameters(const Bucket& all) const {
  if (!sharded(1)) return all.total();
  const int dense = context_.table.placement(Slot::gradients).ranks;
  const int expert = context_.table.placement(Slot::expert_gradients).ranks;
  return (all.dense + dense - 1) / dense + (all.expert + expert - 1) / expert;
}

std::vector<EventRef> DataParallel::gather(TemplateWriter& writer, const Bucket& bucket,
                                           const std::vector<EventRef>& after, EventRef dense_event,
                                           EventRef expert_event) {
  std::vector<EventRef> events;
  const auto issue = [&](Slot slot, std::int64_t parameters, EventRef event) {
    if (parameters == 0 || context_.table.placement(slot).ranks <= 1) return;
    const CollectiveCall call{Collective::all_gather, Bytes{parameters * parameter_bytes()}, Algorithm::automatic,
                              Protocol::automatic};
    events.push_back(writer.collective(Lane::parameters, Traffic::parameters, slot, call, after, event));
  };
  issue(Slot::parameters, bucket.dense, dense_event);
  issue(Slot::expert_parameters, bucket.expert, expert_event);
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
    if (buckets[i].dense > 0 && context_.table.placement(Slot::parameters).ranks > 1)
      writer.wait(context_.rank_event("parameters", chunk.index, static_cast<int>(i), false));
    if (buckets[i].expert > 0 && context_.table.placement(Slot::expert_parameters).ranks > 1)
      writer.wait(context_.rank_event("expert parameters", chunk.index, static_cast<int>(i), false));
  }
}

bool DataParallel::reduce(TemplateWriter& writer, std::int64_t parameters, bool expert, EventRef ready,
                          EventRef reduced) {
  const Slot slot = expert ? Slot::expert_gradients : Slot::gradients;
  const bool group = context_.table.placement(slot).ranks > 1;
  const bool replicas = !expert && context_.table.placement(Slot::replicas).ranks > 1;
  if (!group && !replicas) return false;
  writer.mark_as(ready);
  const Bytes size{parameters * gradient_bytes()};
  if (group) {
    const Collective what = sharded(1) ? Collective::reduce_scatter : Collective::all_reduce;
    writer.collective(Lane::gradients, Traffic::gradients, slot,
                      {what, size, Algorithm::automatic, Protocol::automatic}, {ready},
                      replicas ? EventRef{} : reduced);
  }
  if (replicas) {
    const Bytes shard = size / context_.table.placement(slot).ranks;
    writer.collective(Lane::gradients, Traffic::gradients, Slot::replicas,
                      {Collective::all_reduce, shard, Algorithm::automatic, Protocol::automatic}, {ready}, reduced);
  }
  return true;
}

UnitPrefetch::UnitPrefetch(DataParallel& data, TemplateWriter& writer, const Chunk& chunk, bool backward)
    : data_(data), writer_(writer), chunk_(chunk), backward_(backward), active_(data.gathers_units(backward)) {
  if (!active_) return;
  gather(0, {});
  if (units() > 1) gather(1, {writer_.mark()});
}

void UnitPrefetch::before(int position) {
  if (!active_) return;
  for (EventRef event : gathered_[static_cast<std::size_t>(position)]) writer_.wait(event);
}

void UnitPrefetch::after(int position) {
  if (active_ && position + 2 < units()) gather(position + 2, {writer_.mark()});
}

void UnitPrefetch::gather(int position, const std::vector<EventRef>& after) {
  const int unit = backward_ ? units() - 1 - position : position;
  EventRef dense;
  EventRef expert;
  if (units() <= 2) {
    dense = data_.context().rank_event(backward_ ? "gathered again" : "gathered", chunk_.index, unit, true);
    expert =
        data_.context().rank_event(backward_ ? "experts gathered again" : "experts gathered", chunk_.index, unit, true);
  }
  gathered_.push_back(data_.gather(writer_, data_.context().units.unit(chunk_.stage, unit), after, dense, expert));
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
  const bool each = data_.reduces_every_microbatch();
  const EventRef ready = data_.context().rank_event("gradients ready", chunk_, count_, each);
  const EventRef reduced = data_.context().rank_event("gradients reduced", chunk_, count_, each);
  if (data_.reduce(writer_, parameters, expert, ready, reduced)) last_ = {reduced};
  ++count_;
}

}  // namespace tracecast
