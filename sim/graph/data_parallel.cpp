#include "sim/graph/data_parallel.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/integers.hpp"
#include "sim/cost/host_update.hpp"

namespace tracecast {
namespace {

/// A copy over PCIe, a worker's exchange with servers, or the host's own work.
CollectiveCost cost_of(Duration duration, double spread) {
  CollectiveCost cost;
  cost.duration = duration;
  cost.spread = spread;
  cost.algorithm = Algorithm::direct;
  cost.protocol = Protocol::simple;
  return cost;
}

CollectiveCall copy_of(Bytes size) { return {Collective::send_recv, size, Algorithm::direct, Protocol::simple}; }

/// Of the topologies' PCIe rates, which are what copies reach (26 and 53 GB/s of 32 and 64).
constexpr double kCopySpread = 0.1;

/// The stream of a communicator. Those of the gathers after resharding and of separate gathers share one: a framework
/// issues them on one stream.
Lane lane_of(Slot slot) {
  switch (slot) {
    case Slot::expert_gradients:
      return Lane::expert_gradients;
    case Slot::expert_parameters:
    case Slot::expert_resharded:
      return Lane::expert_parameters;
    case Slot::parameters:
    case Slot::resharded:
      return Lane::parameters;
    case Slot::replicas:
    case Slot::expert_replicas:
      return Lane::replicas;
    default:
      return Lane::gradients;
  }
}

}  // namespace

std::int64_t DataParallel::own_parameters(const Bucket& all) const {
  if (!sharded(1)) return all.trained();
  const int dense = context_.table.placement(Slot::gradients).ranks;
  const int expert = context_.table.placement(Slot::expert_gradients).ranks;
  return ceil_div(all.parameters.trained, dense) + ceil_div(all.parameters.trained_experts, expert);
}

bool DataParallel::gathers_unit(const Stage& stage, int unit, UnitPass pass) const {
  if (!active() || !sharded(3)) return false;
  if (context_.units.has_one_root(stage) && unit == (pass == UnitPass::backward ? 0 : context_.units.head(stage)))
    return false;
  if (pass == UnitPass::backward)
    return context_.plan.gathers_again(context_.units.is_root(stage, unit)) && context_.units.has_backward(stage, unit);
  return pass == UnitPass::first_forward || gathers_every_forward();
}

DataParallel::GatherSlots DataParallel::gather_slots(bool backward) const {
  const Parallel& parallel = context_.plan.parallel;
  if (backward && parallel.reshard_group > 0) return {Slot::resharded, Slot::expert_resharded};
  if (parallel.separate_gather_group) return {Slot::parameters, Slot::expert_parameters};
  return {Slot::gradients, Slot::expert_gradients};
}

std::vector<EventRef> DataParallel::gather(TemplateWriter& writer, const Bucket& bucket,
                                           const std::vector<EventRef>& after, EventRef dense_event,
                                           EventRef expert_event, GatherSlots slots) {
  const bool in_turn = one_stream_each() || !context_.plan.parallel.overlap_param_gather;
  std::vector<EventRef> events;
  const auto issue = [&](Slot slot, Bytes size, EventRef event) {
    if (size.count == 0 || context_.table.placement(slot).ranks <= 1) return;
    const GroupCall gather{lane_of(slot), Traffic::parameters, slot, {Collective::all_gather, size}};
    std::vector<EventRef> waits = after;
    if (in_turn) waits.insert(waits.end(), events.begin(), events.end());
    events.push_back(writer.collective(gather, std::move(waits), event));
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
  const GatherSlots slots = gather_slots(false);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].first_unit != unit) continue;
    if (buckets[i].dense_gathered.count > 0 && context_.table.placement(slots.dense).ranks > 1)
      writer.wait(context_.rank_event("parameters", chunk.index, static_cast<int>(i), false));
    if (buckets[i].expert_gathered.count > 0 && context_.table.placement(slots.expert).ranks > 1)
      writer.wait(context_.rank_event("expert parameters", chunk.index, static_cast<int>(i), false));
  }
}

EventRef DataParallel::reduce(TemplateWriter& writer, const GradientBucket& bucket) {
  const bool group =
      active() && context_.table.placement(bucket.expert ? Slot::expert_gradients : Slot::gradients).ranks > 1;
  const bool replicas = reduces_over(bucket.expert ? Slot::expert_replicas : Slot::replicas);
  if (!group && !replicas && !offloads()) return {};
  copy_gradients_in(writer, bucket);
  const EventRef ready = context_.rank_event("gradients ready", bucket.chunk, bucket.index, bucket.every_microbatch);
  writer.mark_as(ready);
  if (servers()) return push(writer, bucket, ready);
  const EventRef reduced = reduce_over_groups(writer, bucket, ready);
  return offloads() ? to_host(writer, bucket, reduced) : reduced;
}

bool DataParallel::sums_everywhere() const {
  const Plan& plan = context_.plan;
  return rules().sums_on_every_rank ||
         (plan.parallel.zero_stage == 1 && (plan.parallel.zero1_allreduce || adds_gradients_apart(plan.training)));
}

EventRef DataParallel::reduce_over_groups(TemplateWriter& writer, const GradientBucket& bucket, EventRef ready) {
  const Slot slot = bucket.expert ? Slot::expert_gradients : Slot::gradients;
  const Bytes size{bucket.parameters * reduced_gradient_size(context_.plan.training)};
  const auto event = [&](const char* purpose) {
    return context_.rank_event(purpose, bucket.chunk, bucket.index, bucket.every_microbatch);
  };
  EventRef done = ready;
  if (active() && context_.table.placement(slot).ranks > 1) {
    // With a shard group: in it the bytes of a reduce-scatter and of a gather, between groups those of shards, as NCCL's
    // rings over all ranks move them.
    const bool scatters = sharded(1) && !sums_everywhere();
    const Collective what = scatters ? Collective::reduce_scatter : Collective::all_reduce;
    std::vector<EventRef> waits{done};
    const Slot other = bucket.expert ? Slot::gradients : Slot::expert_gradients;
    if (bucket.after && context_.table.placement(other).ranks > 1)
      waits.push_back(context_.rank_event("gradients reduced", bucket.chunk, *bucket.after, bucket.every_microbatch));
    done = writer.collective({lane_of(slot), Traffic::gradients, slot, {what, size}}, std::move(waits),
                             event("gradients reduced"));
  }
  if (const Slot replicas = bucket.expert ? Slot::expert_replicas : Slot::replicas; reduces_over(replicas)) {
    const Bytes shard = size / context_.table.placement(slot).ranks;
    done = writer.collective({lane_of(replicas), Traffic::gradients, replicas, {Collective::all_reduce, shard}}, {done},
                             event("gradients replicated"));
  }
  return done;
}

void DataParallel::copy_parameters_out(TemplateWriter& writer, const Bucket& gathered, GatherSlots slots) {
  const bool views = rules().views_gathered || (context_.plan.parallel.gathers_in_place && reduces_units());
  if (views || !sharded(3)) return;
  const Bytes moved = 2 * ((has_others(slots.dense) ? gathered.dense_gathered : Bytes{}) +
                           (has_others(slots.expert) ? gathered.expert_gathered : Bytes{}));
  if (moved.count > 0)
    writer.compute({OperatorKind::copy, Pass::forward, Precision::bf16, "parameter_copy",
                    ElementwiseShape{gathered.parameters.total(), moved}});
}

void DataParallel::copy_gradients_in(TemplateWriter& writer, const GradientBucket& bucket) {
  const Slot slot = bucket.expert ? Slot::expert_gradients : Slot::gradients;
  if (!has_others(slot)) return;
  const Bytes moved = gradient_copies(bucket.parameters, context_.table.placement(slot).ranks);
  if (moved.count > 0)
    writer.compute({OperatorKind::copy, Pass::backward, Precision::bf16, "gradient_copy",
                    ElementwiseShape{bucket.parameters, moved}});
}

Bytes DataParallel::gradient_copies(std::int64_t parameters, int ranks) const {
  // FSDP's sum of several micro-batches is in the wider of both types.
  const bool summed = context_.plan.num_microbatches > 1 && !reduces_every_microbatch();
  return copied_bytes(rules().framework, gradient_types(), {parameters, ranks, reductions_per_step(), summed});
}

GradientTypes DataParallel::gradient_types() const {
  return {parameter_bytes(), gradient_bytes(), reduced_gradient_size(context_.plan.training), updated_bytes()};
}

void DataParallel::add_gradients(TemplateWriter& writer, std::int64_t parameters, bool last) {
  const Plan& plan = context_.plan;
  const std::int64_t count = plan.num_microbatches;
  const bool once = !reduces_every_microbatch() && !updates_every_backward();
  if (!active() || !once || count == 1 || adds_gradients_apart(plan.training)) return;
  const GradientSum sum = summed_bytes(rules().framework, gradient_types());
  const bool apart = reduces_during_backward(true);
  const std::int64_t others = apart ? sum.first + (count - 2) * sum.later : sum.first + (count - 1) * sum.later;
  const Bytes moved{apart && last ? parameters * sum.last : parameters * others / (apart ? count - 1 : count)};
  if (moved.count > 0)
    writer.compute(
        {OperatorKind::residual, Pass::backward, Precision::bf16, "gradient_sum", ElementwiseShape{parameters, moved}});
}

int DataParallel::ranks_per_host() const {
  return std::min(context_.cluster.node.gpus_per_host, context_.plan.world_size);
}

EventRef DataParallel::copy(TemplateWriter& writer, Lane lane, Bytes size, std::vector<EventRef> after,
                            EventRef arrived, Bytes beside) {
  return writer.fixed({lane, Traffic::offload, Slot::alone, copy_of(size)},
                      cost_of(context_.copy_time(size + beside), kCopySpread), std::move(after), arrived);
}

Bytes DataParallel::beside_copies(const Stage& stage, int unit, UnitPass pass) const {
  if (context_.cluster.node.link != IntraLink::pcie || !active()) return {};
  Bytes sum;
  const auto add = [&](Slot slot, Bytes size) {
    const int ranks = context_.table.placement(slot).ranks;
    if (ranks > 1) sum += size * (ranks - 1) / ranks;
  };
  const Bucket bucket = context_.units.gathered(stage, unit);
  if (gathers_unit(stage, unit, pass)) {
    const GatherSlots slots = gather_slots(pass == UnitPass::backward);
    add(slots.dense, bucket.dense_gathered);
    add(slots.expert, bucket.expert_gathered);
  }
  if (pass != UnitPass::backward || !reduces_units() || !reduces_every_microbatch()) return sum;
  add(Slot::gradients, Bytes{bucket.parameters.trained * gradient_bytes()});
  add(Slot::expert_gradients, Bytes{bucket.parameters.trained_experts * gradient_bytes()});
  return sum;
}

EventRef DataParallel::to_host(TemplateWriter& writer, const GradientBucket& bucket, EventRef reduced) {
  Bucket moved;
  (bucket.expert ? moved.parameters.trained_experts : moved.parameters.trained) = bucket.parameters;
  const auto event = [&](const char* purpose) {
    return context_.rank_event(purpose, bucket.chunk, bucket.index, bucket.every_microbatch);
  };
  const std::int64_t own = own_parameters(moved);
  if (!rules().sums_for_host) {
    const std::int64_t each = reduces_units() ? updated_bytes() : gradient_bytes();
    return copy(writer, Lane::to_host, Bytes{own * each}, {reduced}, event("gradients on the host"));
  }
  // Stage 3 keeps the sum on the host for one micro-batch, too, and fetches it even then.
  const std::int64_t times = reductions_per_step();
  const std::int64_t fetched = parameter_bytes() * (sharded(3) ? times : times - 1);
  const std::int64_t sent = updated_bytes() + (sharded(3) || times > 1 ? times * parameter_bytes() : 0);
  EventRef summed = reduced;
  if (fetched > 0)
    summed = copy(writer, Lane::from_host, Bytes{own * fetched / times}, {reduced}, event("gradients from the host"));
  return copy(writer, Lane::to_host, Bytes{own * sent / times}, {summed}, event("gradients on the host"));
}

EventRef DataParallel::shard_from_host(TemplateWriter& writer, const Bucket& bucket, const std::vector<EventRef>& after,
                                       EventRef arrived) {
  const GatherSlots slots = gather_slots(false);
  const RankParameters& all = bucket.parameters;
  const auto shard = [&](Slot slot, Bytes gathered, std::int64_t parameters, std::int64_t trained) {
    const Bytes wide{trained * updated_bytes() + (parameters - trained) * parameter_bytes()};
    return (reduces_units() ? wide : gathered) / std::max(context_.table.placement(slot).ranks, 1);
  };
  const Bytes size = shard(slots.dense, bucket.dense_gathered, all.dense, all.trained) +
                     shard(slots.expert, bucket.expert_gathered, all.experts, all.trained_experts);
  return copy(writer, Lane::from_host, size, after, arrived);
}

EventRef DataParallel::update_on_host(TemplateWriter& writer, const Bucket& parameters) {
  const std::int64_t own = own_parameters(parameters);
  const EventRef ready = context_.rank_event("ready to update", 0, 0, false);
  writer.mark_as(ready);
  const EventRef updated = writer.fixed({Lane::host, Traffic::offload, Slot::alone, copy_of(Bytes{0})},
                                        cost_of(host_update(own, ranks_per_host()), kHostUpdateSpread), {ready},
                                        context_.rank_event("updated on the host", 0, 0, false));
  if (offloads_parameters()) return updated;
  const Bytes size{own * parameter_bytes()};
  return copy(writer, Lane::from_host, size, {updated}, context_.rank_event("parameters from the host", 0, 0, false));
}

std::int64_t DataParallel::averaged_parameters(const Bucket& all) const {
  return ceil_div(own_parameters(all), averaging_steps(context_.plan.parallel));
}

GroupCall DataParallel::averaging_call(const Bucket& all) const {
  const int chosen = context_.plan.parallel.averaging_bits;
  const std::int64_t bits = chosen > 0 ? chosen : 8 * updated_bytes();
  const Slot slot = sharded(1) ? Slot::replicas : Slot::gradients;
  const Bytes size{ceil_div(averaged_parameters(all) * bits, std::int64_t{8})};
  return {lane_of(slot), Traffic::parameters, slot, {Collective::all_reduce, size}};
}

EventRef DataParallel::average(TemplateWriter& writer, const Bucket& all) {
  if (context_.plan.parallel.averaging_overlap > 0) return averaged_event();
  return writer.collective(averaging_call(all), {writer.mark()});
}

void DataParallel::begin_average(TemplateWriter& writer, const Bucket& all) {
  writer.collective(averaging_call(all), {}, averaged_event());
}

ParameterServers DataParallel::server_setup() const {
  return parameter_servers(context_.cluster, context_.table.placement(Slot::gradients), context_.plan.parallel.servers);
}

EventRef DataParallel::push(TemplateWriter& writer, const GradientBucket& bucket, EventRef ready) {
  const Bytes size{bucket.parameters * gradient_bytes()};
  const double time = asynchronous() ? lone_push_s(server_setup(), size) : push_s(server_setup(), size);
  return writer.fixed({Lane::gradients, Traffic::gradients, server_slot(), copy_of(size)},
                      cost_of(from_seconds(time), context_.cluster.tuning.residual), {ready},
                      context_.rank_event("gradients pushed", bucket.chunk, bucket.index, bucket.every_microbatch));
}

void DataParallel::serve_step(TemplateWriter& writer, const Chunk& chunk) {
  if (!asynchronous() || !active()) return;
  const Bytes size{context_.units.stage(chunk.stage).trained() * std::max(gradient_bytes(), parameter_bytes())};
  writer.fixed({Lane::global, Traffic::gradients, Slot::alone, copy_of(Bytes{0})},
               cost_of(from_seconds(service_s(server_setup(), size)), context_.cluster.tuning.residual), {},
               context_.rank_event("servers are done", 0, 0, false));
}

void DataParallel::pull(TemplateWriter& writer, const Chunk& chunk) {
  if (!active()) return;
  const std::int64_t all = context_.units.stage(chunk.stage).trained();
  const Bytes size{all * parameter_bytes()};
  const ParameterServers setup = server_setup();
  const Duration update = host_update(all / setup.servers, 1);
  const double time = asynchronous() ? lone_push_s(setup, size) : push_s(setup, size);
  if (asynchronous()) writer.wait(context_.rank_event("servers are done", 0, 0, false));
  const EventRef pushed = context_.rank_event("ready to pull", 0, 0, false);
  writer.mark_as(pushed);
  writer.wait(writer.fixed({Lane::gradients, Traffic::parameters, server_slot(), copy_of(size)},
                           cost_of(update + from_seconds(time), context_.cluster.tuning.residual), {pushed},
                           context_.rank_event("parameters pulled", 0, 0, false)));
}

}  // namespace tracecast
