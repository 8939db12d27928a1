#include "sim/search/layer_costs.hpp"

#include <set>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/data_parallel.hpp"
#include "sim/graph/stage_times.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

/// The list without the operations that another pass may hide.
WorkList without_exchanges(WorkList list) {
  std::set<int> tickets;
  for (const Work& work : list)
    if (work.kind == Work::Kind::start && work.traffic == Traffic::expert_parallel) tickets.insert(work.ticket);
  std::erase_if(list, [&](const Work& work) {
    return (work.kind == Work::Kind::start || work.kind == Work::Kind::join) && tickets.contains(work.ticket);
  });
  return list;
}

/// The list without attention and the exchanges of context parallelism: with dynamic_cp both depend on the micro-batch.
WorkList without_attention(WorkList list) {
  std::set<int> tickets;
  for (const Work& work : list)
    if (work.kind == Work::Kind::start && work.traffic == Traffic::context_parallel) tickets.insert(work.ticket);
  std::erase_if(list, [&](const Work& work) {
    if (work.kind == Work::Kind::compute) return work.op.kind == OperatorKind::attention;
    if (work.kind == Work::Kind::collective) return work.traffic == Traffic::context_parallel;
    return (work.kind == Work::Kind::start || work.kind == Work::Kind::join) && tickets.contains(work.ticket);
  });
  return list;
}

/// The layout on a pipeline of one rank, with one micro-batch, or with all of them where they differ.
Plan one_stage_plan(const Scenario& scenario, Layout layout, int dp, KnownPacks& packs) {
  layout.pp = layout.vpp = 1;
  Plan plan;
  plan.parallel = scenario.parallel;
  plan.training = scenario.training;
  apply_layout(layout, scenario, plan.parallel, plan.training);
  Parallel& p = plan.parallel;
  // Of the two losses that follow from the zero stage the shorter one, since all stages share its cost.
  if (plan.training.cross_entropy == CrossEntropy::automatic && !plan.training.compiled)
    plan.training.cross_entropy = CrossEntropy::pytorch;
  PlanCheck no_faults;
  apply_strategy(no_faults, p);
  // And of weight gradients those of FSDP, which are not added to fp32 ones.
  if (multiplication_adds(p, plan.training)) plan.training.grad_reduce_dtype = Precision::bf16;
  p.dp = dp;
  p.shard_group = std::min(p.shard_group, plan.gradient_group());  // of a host with several stages
  if (scenario.model.moe) plan.expert_load = expert_load(*scenario.model.moe, p, plan.training);
  plan.world_size = p.tp * p.cp * p.dp;
  plan.num_microbatches = 1;
  if (plan.training.documents && plan.training.documents->packing != Packing::dynamic_cp) {
    // All batches of the job, whose mean does not depend on the ranks that have them.
    plan.num_microbatches = static_cast<int>(plan.training.global_batch_size / (plan.training.micro_batch_size * dp));
    plan.packed = packs.of(plan);
  }
  const auto order = parse_rank_order(p.rank_order);
  TRACECAST_ASSERT(order.has_value(), "the scenario's rank order was read");
  plan.grid = RankGrid({p.tp, p.cp, p.dp, 1}, *order);
  plan.stages = {Stage{0, scenario.model.layers(), true, true}};
  return plan;
}

/// A build context for rank 0 of such a plan, and the durations of its operations. Only the groups of `slots` are
/// placed: placing all groups of 16,384 ranks takes longer than all layers.
class OneRank {
 public:
  OneRank(const CostSources& from, const Layout& layout, int dp, std::initializer_list<Slot> slots)
      : from_(from),
        plan_(one_stage_plan(from.scenario, layout, dp, from.packs)),
        schedule_(make_schedule("1f1b", {.ranks = 1, .microbatches = 1}).value()),
        context_({from.scenario.model, plan_, schedule_, from.scenario.cluster, from.costs, from.network}) {
    RankKind kind;
    kind.slots.fill(context_.placements.alone());
    for (const Slot slot : slots)
      if (!context_.groups.alone(slot))
        kind.slots[static_cast<std::size_t>(slot)] =
            context_.placements.block(slot, 0)[static_cast<std::size_t>(context_.groups.part(slot, 0))];
    context_.select(kind);
  }
  const Plan& plan() const { return plan_; }
  const LayerWork& work() const { return context_.work; }
  const ParameterUnits& units() const { return context_.units; }
  const Stage& stage() const { return plan_.stages.front(); }

  /// The time alone. Adds the time for which its collectives occupy links to `links`.
  std::int64_t alone(const WorkList& list, LinkTime& links) {
    Template written;
    TemplateWriter writer(context_.graph, context_.table, written, {}, plan_.parallel.tp_comm_overlap);
    writer.write(list);
    writer.finish();
    for (const Op& op : written.ops) {
      if (op.type != OpType::collective) continue;
      const CostedCollective& each = context_.graph.collectives[static_cast<std::size_t>(op.payload)];
      links += from_.links.of(each.call, each.cost, context_.table.placement(static_cast<Slot>(each.slot)));
    }
    return time_alone(context_.graph, written).picoseconds;
  }

  /// FSDP's copies of a unit that is gathered `times` times and, if so, reduced.
  std::int64_t copies(const Bucket& unit, int times, bool reduced) {
    DataParallel data(context_);
    Template written;
    TemplateWriter writer(context_.graph, context_.table, written, {}, false);
    for (int i = 0; i < times; ++i) data.copy_parameters_out(writer, unit, data.gather_slots(false));
    const std::int64_t experts = units().separates_experts() ? unit.parameters.trained_experts : 0;
    if (reduced && unit.trained() > experts) data.copy_gradients_in(writer, {unit.trained() - experts, false});
    if (reduced && experts > 0) data.copy_gradients_in(writer, {experts, true});
    writer.finish();
    return time_alone(context_.graph, written).picoseconds;
  }

  struct CollectiveTime {
    std::int64_t alone = 0;
    LinkTime links;
  };
  /// Zero for a group of one rank.
  CollectiveTime collective(Collective collective, Slot slot, Bytes size) const {
    const GroupPlacement& group = context_.table.placement(slot);
    if (size.count == 0 || group.ranks <= 1) return {};
    const CollectiveCall call{collective, size, Algorithm::automatic, Protocol::automatic};
    const CollectiveCost cost = from_.network.cost(call, group);
    return {cost.duration.picoseconds, from_.links.of(call, cost, group)};
  }

 private:
  const CostSources& from_;
  const Plan plan_;
  const Schedule schedule_;
  BuildContext context_;
};

void add_activations(LayerCosts& costs, const CostSources& from, const Plan& plan) {
  const Model& model = from.scenario.model;
  for (const int layer : from.kinds.first) {
    const bool trained = trains_layer(model, plan.training, layer);
    costs.layer_kept.push_back(
        trained ? rank_bytes(layer_activations(model, plan, layer, plan.training.recompute), plan) : 0);
  }
  costs.embedding_kept = rank_bytes(embedding_activations(model), plan);
  costs.head_kept = rank_bytes(head_activations(model, plan), plan);
}

struct UnitTraffic {
  ShardTimes time;
  LinkTime links;
};

/// Gathers of one unit in a forward and a backward, and its reductions.
/// `pp`: of the whole layout, where `rank` is alone.
UnitTraffic unit_traffic(OneRank& rank, int unit, int pp, bool mirrored) {
  Plan plan = rank.plan();
  plan.parallel.pp = pp;
  // Both ends of a root are one call, which takes less than two: the output layer's part is left out.
  if (pp == 1 && unit == rank.units().head(rank.stage()) && rank.units().has_one_root(rank.stage())) return {};
  const Bucket bucket = rank.units().gathered(rank.stage(), unit);
  UnitTraffic sum;
  const auto add = [&](std::int64_t& time, Collective collective, Slot slot, Bytes size, int times) {
    const OneRank::CollectiveTime each = rank.collective(collective, slot, size);
    time = times * each.alone;
    sum.links += each.links * times;
  };
  // After the forward, parameters may be in smaller groups, which are left out here.
  const bool again = plan.gathers_again(rank.units().is_root(rank.stage(), unit)) &&
                     rank.units().has_backward(rank.stage(), unit) && plan.parallel.reshard_group == 0;
  const int times = (gathers_every_forward(plan.parallel, 2) ? 1 : 0) + (again ? 1 : 0);
  add(sum.time.gathers, Collective::all_gather, Slot::gradients, bucket.dense_gathered, times);
  add(sum.time.expert_gathers, Collective::all_gather, Slot::expert_gradients, bucket.expert_gathered, times);
  // DeepSpeed fills buckets of several units; what is reduced once in a step of several micro-batches is left out.
  const bool reduced = reduces_units(plan.parallel) && !mirrored && reduces_every_microbatch(plan.parallel, 2);
  // Copies of gradients may run beside collectives that overlap with weight gradients; those of parameters come between layers.
  const Parallel& p = plan.parallel;
  sum.time.copies = rank.copies(bucket, times, reduced && p.tp * p.cp * p.ep == 1);
  if (!reduced) return sum;
  const std::int64_t size = reduced_gradient_size(plan.training);
  const std::int64_t experts = rank.units().separates_experts() ? bucket.parameters.trained_experts : 0;
  add(sum.time.reductions, Collective::reduce_scatter, Slot::gradients, Bytes{(bucket.trained() - experts) * size}, 1);
  add(sum.time.expert_reductions, Collective::reduce_scatter, Slot::expert_gradients, Bytes{experts * size}, 1);
  return sum;
}

/// Of buffers so large that nothing else than bandwidth counts.
PortRates port_rates(const OneRank& rank, Slot slot) {
  constexpr Bytes kLarge{std::int64_t{1} << 40};
  const auto each = [&](Collective collective) {
    return rank.collective(collective, slot, kLarge).links.port / static_cast<double>(kLarge.count);
  };
  return {each(Collective::all_reduce), each(Collective::reduce_scatter), each(Collective::all_gather)};
}

}  // namespace

std::shared_ptr<const PackedSteps> KnownPacks::of(const Plan& plan) {
  std::shared_ptr<const PackedSteps>& known = known_[plan.parallel.cp];
  if (!known) known = std::make_shared<const PackedSteps>(packed_steps(plan));
  return known;
}

int placing_dp(const Scenario& scenario, const Layout& layout, int dp) {
  const std::string& order = scenario.parallel.rank_order;
  const std::size_t data = order.find("dp");
  const auto later = [&](const char* axis, int degree) {
    return degree > 1 && data != std::string::npos && order.find(axis) > data;
  };
  return layout.ep > 1 || later("tp", layout.tp) || later("cp", layout.cp) ? dp : 1;
}

LayerCosts layer_costs(const CostSources& from, const Layout& layout, int dp, bool pairs) {
  // All zero stages share these costs, so that what ZeRO-3 alone does, such as casts of gathered weights, is left out.
  Layout whole = layout;
  whole.zero_stage = 1;
  OneRank rank(from, whole, dp, {Slot::tensor, Slot::context, Slot::expert, Slot::expert_tensor});
  const Training& training = rank.plan().training;
  // With recompute_num_layers the recomputed layers depend on the stage: the bound recomputes none.
  const bool recompute = training.recompute == Recompute::full && training.recompute_num_layers == 0;
  LayerCosts costs;
  const bool dynamic = training.documents && training.documents->packing == Packing::dynamic_cp;
  const auto alone = [&](WorkList list, LinkTime& links) {
    if (pairs) list = without_exchanges(std::move(list));
    if (dynamic) list = without_attention(std::move(list));
    return rank.alone(list, links);
  };
  for (const int layer : from.kinds.first) {
    LinkTime& links = costs.layer_links.emplace_back();
    const std::int64_t forward = alone(rank.work().forward(layer), links);
    costs.layer.push_back({forward, alone(rank.work().backward(layer, BackwardPart::all, recompute), links)});
  }
  LinkTime& embedding = costs.embedding_links;
  costs.embedding.forward = alone(rank.work().embedding_forward(), embedding);
  costs.embedding.backward = alone(rank.work().embedding_backward(), embedding);
  LinkTime& head = costs.head_links;
  costs.head.forward = alone(rank.work().head_forward(), head);
  costs.head.backward = alone(rank.work().head_backward(BackwardPart::all), head);
  add_activations(costs, from, rank.plan());
  return costs;
}

ShardTraffic shard_traffic(const CostSources& from, const Layout& layout, int dp, bool mirrored) {
  Layout sharded = layout;
  sharded.zero_stage = 3;
  OneRank rank(from, sharded, dp, {Slot::gradients, Slot::expert_gradients});
  ShardTraffic traffic;
  const auto unit = [&](int number, LinkTime& links) {
    const UnitTraffic own = unit_traffic(rank, number, layout.pp, mirrored);
    links = own.links;
    return own.time;
  };
  for (const int layer : from.kinds.first) {
    LinkTime& links = traffic.layer_links.emplace_back();
    traffic.layer.push_back(unit(rank.units().layer(rank.stage(), layer), links));
  }
  traffic.embedding = unit(0, traffic.embedding_links);
  traffic.head = unit(rank.units().head(rank.stage()), traffic.head_links);
  traffic.dense = port_rates(rank, Slot::gradients);
  traffic.expert = port_rates(rank, Slot::expert_gradients);
  return traffic;
}

}  // namespace tracecast
