#include "sim/search/bound.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/stage_times.hpp"
#include "sim/graph/template_writer.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/plan/stages.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

/// Prefix sums over the parts of a model: sums[i] is the sum of the parts before part i.
template <class Value>
class PrefixSums {
 public:
  void add(Value value) { sums_.push_back(sums_.back() + value); }
  Value between(int first, int count) const {
    return sums_[static_cast<std::size_t>(first + count)] - sums_[static_cast<std::size_t>(first)];
  }

 private:
  std::vector<Value> sums_{Value{}};
};

/// One micro-batch through one virtual stage, ps.
struct PassTime {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

bool splits_backward(const Schedule& schedule) {
  for (const Action& action : schedule.actions.front())
    if (action.kind == ActionKind::backward_input || action.kind == ActionKind::backward_weight) return true;
  return false;
}

/// Do forwards and backwards of this schedule hide each other's exchanges of tokens?
bool has_pairs(const Schedule& schedule) {
  for (const Action& action : schedule.actions.front())
    if (action.kind == ActionKind::forward_backward) return true;
  return false;
}

/// The list without what another pass may hide.
WorkList without_exchanges(WorkList list) {
  std::set<int> tickets;
  for (const Work& work : list)
    if (work.kind == Work::Kind::start && work.traffic == Traffic::expert_parallel) tickets.insert(work.ticket);
  std::erase_if(list, [&](const Work& work) {
    return (work.kind == Work::Kind::start || work.kind == Work::Kind::join) && tickets.contains(work.ticket);
  });
  return list;
}

std::int64_t microbatches_of(const Training& training, const Layout& layout, int dp) {
  return training.global_batch_size / (layout.micro_batch_size * dp);
}

}  // namespace

/// What layers, embedding and head cost on one rank, and keep of one micro-batch.
struct BoundTable::LayerTimes {
  PrefixSums<std::int64_t> forward;  // ps, by layer
  PrefixSums<std::int64_t> backward;
  PrefixSums<double> activations;  // bytes, by layer
  PassTime embedding;
  PassTime head;
  double embedding_activations = 0;
  double head_activations = 0;

  PassTime of(const Stage& stage) const {
    PassTime time{forward.between(stage.first_layer, stage.num_layers),
                  backward.between(stage.first_layer, stage.num_layers)};
    if (stage.embedding) time = {time.forward + embedding.forward, time.backward + embedding.backward};
    if (stage.head) time = {time.forward + head.forward, time.backward + head.backward};
    return time;
  }
  double kept_by(const Stage& stage) const {
    return activations.between(stage.first_layer, stage.num_layers) + (stage.embedding ? embedding_activations : 0) +
           (stage.head ? head_activations : 0);
  }
};

/// How a schedule lays a model cut into pp x vpp stages over the pipeline ranks.
struct BoundTable::Shape {
  std::vector<Stage> stages;  // empty: it cannot
  std::vector<std::vector<int>> stage_of;
  int replicas = 1;
  bool split_backward = false;
  bool pairs = false;
};

/// Parameters of one rank, by part of the model.
struct BoundTable::Parameters {
  PrefixSums<std::int64_t> dense;
  PrefixSums<std::int64_t> experts;
  std::int64_t embedding = 0;
  std::int64_t head = 0;

  RankParameters of(const Stage& stage) const {
    RankParameters sum{dense.between(stage.first_layer, stage.num_layers),
                       experts.between(stage.first_layer, stage.num_layers)};
    if (stage.embedding) sum.dense += embedding;
    if (stage.head) sum.dense += head;
    return sum;
  }
};

BoundTable::BoundTable(const Scenario& scenario)
    : scenario_(scenario), costs_(scenario.profile), network_(make_network(scenario.cluster, scenario.profile)) {}

BoundTable::~BoundTable() = default;

bool BoundTable::divides(const Layout& layout) const {
  const Model& model = scenario_.model;
  const int model_ranks = layout.tp * layout.cp * layout.pp;
  if (scenario_.cluster.world_size % model_ranks != 0) return false;
  if (layout.vpp > 1 && layout.pp == 1) return false;
  const int dp = scenario_.cluster.world_size / model_ranks;
  const std::int64_t batch = scenario_.training.global_batch_size;
  if (batch % (layout.micro_batch_size * dp) != 0) return false;
  if (model.num_attention_heads % layout.tp != 0 || model.hidden_size % layout.tp != 0) return false;
  if (model.vocab_size % layout.tp != 0) return false;
  if (layout.ep > 1 && (!model.moe || model.moe->experts % layout.ep != 0)) return false;
  return true;
}

const BoundTable::LayerTimes& BoundTable::layer_times(const Layout& layout, int dp) {
  // Where expert groups lie depends on dp; the other groups of a layer are the same for every dp.
  const bool pairs = layout.ep > 1 && shape(layout).pairs;
  const auto key = std::tuple(layout.tp, layout.cp, layout.ep, layout.micro_batch_size, layout.recompute,
                              layout.ep > 1 ? dp : 0, pairs);
  std::unique_ptr<LayerTimes>& known = layer_times_[key];
  if (known) return *known;
  known = std::make_unique<LayerTimes>();
  Layout one_stage = layout;
  one_stage.pp = one_stage.vpp = 1;
  const Scenario scenario = with_layout(scenario_, one_stage);
  Plan plan;
  plan.parallel = scenario.parallel;
  plan.training = scenario.training;
  Parallel& p = plan.parallel;
  p.dp = dp;
  if (p.etp == 0) p.etp = p.tp;
  plan.world_size = p.tp * p.cp * p.dp;
  plan.num_microbatches = 1;
  const auto order = parse_rank_order(p.rank_order);
  TRACECAST_ASSERT(order.has_value(), "the scenario's rank order was read");
  plan.grid = RankGrid({p.tp, p.cp, p.dp, 1}, *order);
  const Stage whole{0, scenario.model.layers(), true, true};
  plan.stages = {whole};
  const Result<Schedule> schedule = make_schedule("1f1b", {.ranks = 1, .microbatches = 1});
  TRACECAST_ASSERT(schedule.has_value(), "1f1b takes one rank and one micro-batch");
  BuildContext context(scenario.model, plan, *schedule, scenario.cluster, {&costs_}, *network_);
  const Perturbation none;
  context.select(RankKinds(plan, context.seats, 1, context.groups, none, context.placements).of(0));
  const LayerWork& work = context.work;
  const auto alone = [&](const WorkList& list) {
    Template written;
    TemplateWriter writer(context.graph, context.table, written, {}, p.tp_comm_overlap);
    writer.write(pairs ? without_exchanges(list) : list);
    writer.finish();
    return time_alone(context.graph, written).picoseconds;
  };
  const bool full = plan.training.recompute == Recompute::full;
  std::map<bool, PassTime> kinds;
  for (int layer = 0; layer < scenario.model.layers(); ++layer) {
    const auto [kind, added] = kinds.try_emplace(scenario.model.is_moe_layer(layer));
    if (added) {
      // With recompute_num_layers it depends on the stage which layers are recomputed: the bound recomputes none.
      const bool recompute = full && plan.training.recompute_num_layers == 0;
      kind->second = {alone(work.forward(layer)), alone(work.backward(layer, BackwardPart::all, recompute))};
    }
    known->forward.add(kind->second.forward);
    known->backward.add(kind->second.backward);
    const bool on_host = plan.training.offload_activations;
    known->activations.add(
        on_host ? 0 : rank_bytes(layer_activations(scenario.model, plan, layer, plan.training.recompute), plan));
  }
  known->embedding = {alone(work.embedding_forward()), alone(work.embedding_backward())};
  known->head = {alone(work.head_forward()), alone(work.head_backward(BackwardPart::all))};
  known->embedding_activations = rank_bytes(embedding_activations(scenario.model), plan);
  known->head_activations = rank_bytes(head_activations(scenario.model, plan), plan);
  return *known;
}

const BoundTable::Shape& BoundTable::shape(const Layout& layout) {
  std::unique_ptr<Shape>& known = shapes_[{layout.pp_schedule, layout.pp, layout.vpp}];
  if (known) return *known;
  known = std::make_unique<Shape>();
  const Scenario scenario = with_layout(scenario_, layout);
  Result<std::vector<Stage>> stages = cut_stages(scenario.model, scenario.parallel);
  if (!stages) return *known;
  std::string name = layout.pp_schedule;
  if (name.empty()) name = layout.vpp > 1 ? "interleaved-1f1b" : "1f1b";
  // The placement does not depend on the number of micro-batches; this many every schedule takes.
  const Result<Schedule> schedule =
      make_schedule(name, {.ranks = layout.pp, .microbatches = 2 * layout.pp, .chunks = layout.vpp});
  if (!schedule || schedule->stages() != static_cast<int>(stages->size())) return *known;
  known->stages = std::move(*stages);
  known->stage_of = schedule->stage_of;
  known->replicas = schedule->replicas;
  known->split_backward = splits_backward(*schedule);
  known->pairs = has_pairs(*schedule);
  return *known;
}

const BoundTable::Parameters& BoundTable::parameters(const Layout& layout) {
  std::unique_ptr<Parameters>& known = parameters_[{layout.tp, layout.ep}];
  if (known) return *known;
  known = std::make_unique<Parameters>();
  Plan plan;
  plan.parallel = with_layout(scenario_, layout).parallel;
  if (plan.parallel.etp == 0) plan.parallel.etp = plan.parallel.tp;
  const auto units = [&](const Stage& stage) { return stage_units(scenario_.model, plan, stage, true); };
  for (int layer = 0; layer < scenario_.model.layers(); ++layer) {
    const RankParameters unit = units({layer, 1, false, false}).front();
    known->dense.add(unit.dense);
    known->experts.add(unit.experts);
  }
  known->embedding = units({0, 0, true, false}).front().dense;
  for (const RankParameters& unit : units({0, 0, false, true})) known->head += unit.total();
  return *known;
}

Duration BoundTable::time_bound(const LayerTimes& times, const Shape& laid, std::int64_t microbatches) {
  // Ranks of a perturbed machine differ: what holds for one of them bounds nothing.
  if (!scenario_.perturbation.none() || scenario_.cluster.faults != NetworkFaults{}) return {};
  before_.clear();  // of the stages before each one
  PassTime sum;
  for (const Stage& stage : laid.stages) {
    before_.emplace_back(sum.forward, sum.backward);
    const PassTime own = times.of(stage);
    sum = {sum.forward + own.forward, sum.backward + own.backward};
  }
  before_.emplace_back(sum.forward, sum.backward);
  std::int64_t bound = sum.forward + (laid.split_backward ? 0 : sum.backward);
  const std::int64_t passes = microbatches / laid.replicas;
  for (const std::vector<int>& chunks : laid.stage_of) {
    std::int64_t head = sum.forward;
    std::int64_t tail = laid.split_backward ? 0 : sum.backward;
    std::int64_t work = 0;
    for (const int stage : chunks) {
      const auto s = static_cast<std::size_t>(stage);
      const auto [forward, backward] = before_[s];
      head = std::min(head, forward);
      tail = std::min(tail, backward);
      work += before_[s + 1].first - forward + before_[s + 1].second - backward;
    }
    bound = std::max(bound, head + passes * work + tail);
  }
  return {bound};
}

Bytes BoundTable::memory_bound(const Layout& layout, int dp, std::int64_t microbatches, const LayerTimes& times,
                               const Shape& laid) {
  const Parameters& held = parameters(layout);
  const Parallel& p = scenario_.parallel;
  const Training& training = scenario_.training;
  const int etp = p.etp == 0 ? layout.tp : p.etp;
  const int shards = p.shard_group > 0 ? p.shard_group : dp * layout.cp;
  const int expert_shards = std::min(shards, std::max(1, layout.tp * layout.cp * dp / (layout.ep * etp)));
  const bool one_chunk = layout.vpp == 1 && (layout.pp_schedule.empty() || layout.pp_schedule == "1f1b");
  const bool interleaved = layout.vpp > 1 && (layout.pp_schedule.empty() || layout.pp_schedule == "interleaved-1f1b");
  const MemoryOptions options;
  Bytes tightest;
  for (std::size_t rank = 0; rank < laid.stage_of.size(); ++rank) {
    RankParameters parameters;
    double largest = 0;
    double smallest = 1e300;
    for (const int stage : laid.stage_of[rank]) {
      const Stage& part = laid.stages[static_cast<std::size_t>(stage)];
      parameters += held.of(part);
      const double kept = times.kept_by(part);
      largest = std::max(largest, kept);
      smallest = std::min(smallest, kept);
    }
    const auto after = static_cast<std::int64_t>(laid.stage_of.size() - 1 - rank);
    double activations = largest;
    if (one_chunk) activations = static_cast<double>(std::min(after + 1, microbatches)) * largest;
    if (interleaved) {
      const std::int64_t ahead = 2 * after + (layout.vpp - 1) * std::min<std::int64_t>(layout.pp, microbatches);
      activations = std::max(largest, static_cast<double>(std::min(ahead, microbatches * layout.vpp)) * smallest);
    }
    MemoryByKind states = model_states(parameters.dense, training, layout.zero_stage, shards);
    const MemoryByKind experts = model_states(parameters.experts, training, layout.zero_stage, expert_shards);
    states.weights += experts.weights;
    states.gradients += experts.gradients;
    states.optimizer += experts.optimizer;
    if (training.offload_optimizer || has_servers(p)) states.optimizer = Bytes{};
    if (training.offload_parameters) states.weights = Bytes{};
    Bytes total = states.total() + options.fixed;
    total.count += static_cast<std::int64_t>((1 + options.fragmentation) * activations);
    tightest = std::max(tightest, total);
  }
  return tightest;
}

std::optional<LayoutBound> BoundTable::bound(const Layout& layout) {
  if (!divides(layout)) return std::nullopt;
  const int dp = scenario_.cluster.world_size / (layout.tp * layout.cp * layout.pp);
  const std::int64_t microbatches = microbatches_of(scenario_.training, layout, dp);
  const Shape& laid = shape(layout);
  if (laid.stages.empty()) return std::nullopt;
  const LayerTimes& times = layer_times(layout, dp);
  if (last_.times != &times || last_.shape != &laid || last_.microbatches != microbatches)
    last_ = {&times, &laid, microbatches, time_bound(times, laid, microbatches)};
  return LayoutBound{last_.bound, memory_bound(layout, dp, microbatches, times, laid)};
}

}  // namespace tracecast
