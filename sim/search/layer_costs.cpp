#include "sim/search/layer_costs.hpp"

#include <set>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/stage_times.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/plan.hpp"
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

/// The layout on a pipeline of one rank, with one micro-batch.
Plan one_stage_plan(const Scenario& scenario, Layout layout, int dp) {
  layout.pp = layout.vpp = 1;
  Plan plan;
  plan.parallel = scenario.parallel;
  plan.training = scenario.training;
  apply_layout(layout, scenario.model, plan.parallel, plan.training);
  Parallel& p = plan.parallel;
  PlanCheck no_faults;
  apply_strategy(no_faults, p);
  p.dp = dp;
  if (p.etp == 0) p.etp = p.tp;
  plan.world_size = p.tp * p.cp * p.dp;
  plan.num_microbatches = 1;
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
        plan_(one_stage_plan(from.scenario, layout, dp)),
        schedule_(make_schedule("1f1b", {.ranks = 1, .microbatches = 1}).value()),
        context_({from.scenario.model, plan_, schedule_, from.scenario.cluster, from.costs, from.network}) {
    RankKind kind;
    kind.slots.fill(context_.placements.alone());
    for (const Slot slot : slots)
      kind.slots[static_cast<std::size_t>(slot)] =
          context_.placements.block(slot, 0)[static_cast<std::size_t>(context_.groups.part(slot, 0))];
    context_.select(kind);
  }
  const Plan& plan() const { return plan_; }
  const LayerWork& work() const { return context_.work; }
  const ParameterUnits& units() const { return context_.units; }
  const Stage& stage() const { return plan_.stages.front(); }

  std::int64_t alone(const WorkList& list) {
    Template written;
    TemplateWriter writer(context_.graph, context_.table, written, {}, plan_.parallel.tp_comm_overlap);
    writer.write(list);
    writer.finish();
    return time_alone(context_.graph, written).picoseconds;
  }

  /// 0 for a group of one rank.
  std::int64_t collective(Collective collective, Slot slot, Bytes size) const {
    const GroupPlacement& group = context_.table.placement(slot);
    if (size.count == 0 || group.ranks <= 1) return 0;
    return from_.network.cost({collective, size, Algorithm::automatic, Protocol::automatic}, group)
        .duration.picoseconds;
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

/// Gathers of one unit in a forward and a backward, and its reductions.
ShardTimes unit_traffic(const OneRank& rank, int unit) {
  const Plan& plan = rank.plan();
  const Bucket bucket = rank.units().gathered(rank.stage(), unit);
  // After the forward, parameters may be in smaller groups, which are left out here.
  const bool again = plan.gathers_again(rank.units().is_root(rank.stage(), unit)) && plan.parallel.reshard_group == 0;
  const int times = again ? 2 : 1;
  ShardTimes time;
  time.gathers = times * rank.collective(Collective::all_gather, Slot::gradients, bucket.dense_gathered);
  time.expert_gathers = times * rank.collective(Collective::all_gather, Slot::expert_gradients, bucket.expert_gathered);
  if (plan.parallel.data_parallel == DataParallelKind::deepspeed) return time;  // fills buckets of several units
  const std::int64_t size = element_size(plan.training.grad_reduce_dtype);
  time.reductions =
      rank.collective(Collective::reduce_scatter, Slot::gradients, Bytes{bucket.parameters.trained * size});
  time.expert_reductions = rank.collective(Collective::reduce_scatter, Slot::expert_gradients,
                                           Bytes{bucket.parameters.trained_experts * size});
  return time;
}

}  // namespace

int placing_dp(const Scenario& scenario, const Layout& layout, int dp) {
  const std::string& order = scenario.parallel.rank_order;
  const std::size_t data = order.find("dp");
  const auto later = [&](const char* axis, int degree) {
    return degree > 1 && data != std::string::npos && order.find(axis) > data;
  };
  return layout.ep > 1 || later("tp", layout.tp) || later("cp", layout.cp) ? dp : 1;
}

LayerCosts layer_costs(const CostSources& from, const Layout& layout, int dp, bool pairs) {
  OneRank rank(from, layout, dp, {Slot::tensor, Slot::context, Slot::expert});
  const Training& training = rank.plan().training;
  // With recompute_num_layers the recomputed layers depend on the stage: the bound recomputes none.
  const bool recompute = training.recompute == Recompute::full && training.recompute_num_layers == 0;
  const auto alone = [&](WorkList list) {
    return rank.alone(pairs ? without_exchanges(std::move(list)) : std::move(list));
  };
  LayerCosts costs;
  for (const int layer : from.kinds.first)
    costs.layer.push_back(
        {alone(rank.work().forward(layer)), alone(rank.work().backward(layer, BackwardPart::all, recompute))});
  costs.embedding = {alone(rank.work().embedding_forward()), alone(rank.work().embedding_backward())};
  costs.head = {alone(rank.work().head_forward()), alone(rank.work().head_backward(BackwardPart::all))};
  add_activations(costs, from, rank.plan());
  return costs;
}

ShardTraffic shard_traffic(const CostSources& from, const Layout& layout, int dp) {
  Layout sharded = layout;
  sharded.zero_stage = 3;
  const OneRank rank(from, sharded, dp, {Slot::gradients, Slot::expert_gradients});
  ShardTraffic traffic;
  for (const int layer : from.kinds.first)
    traffic.layer.push_back(unit_traffic(rank, rank.units().layer(rank.stage(), layer)));
  traffic.embedding = unit_traffic(rank, 0);
  traffic.head = unit_traffic(rank, rank.units().head(rank.stage()));
  return traffic;
}

}  // namespace tracecast
