#include "sim/search/bound.hpp"

#include <algorithm>

#include "sim/base/parallel_for.hpp"
#include "sim/cost/host_update.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/plan/layout_checks.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/plan/plan_check.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {

/// Parameters of one rank, by part of the model.
struct BoundTable::StageParameters {
  std::vector<RankParameters> layer;  ///< [kind]
  RankParameters embedding;
  RankParameters head;
  RankParameters of(const ModelPart& part) const { return part.sum(layer, embedding, head); }
};

/// A layout with everything that its bounds are computed from.
struct BoundTable::LayoutState {
  Plan plan;  ///< parallel (with dp, etp) and training only
  std::int64_t microbatches = 0;
  const PipelineShape* shape = nullptr;
  const LayerCosts* costs = nullptr;
  const ShardTraffic* traffic = nullptr;  ///< null: one rank, parameter servers or averaging
  bool shards = false;                    ///< ZeRO-3: its traffic occurs for each micro-batch
  LinkTime message;                       ///< between stages
  bool fills_domains = false;             ///< all GPUs of a domain belong to one pipeline rank
  std::vector<RankParameters> held;       ///< [index into shape->ranks] parameters of a rank
  Duration compute;  ///< bound by the compute streams; without FSDP's copies, so for all zero_stages and offloads
};

namespace {

std::array<Axis, kAxes> rank_order_of(const Scenario& scenario) {
  const auto order = parse_rank_order(scenario.parallel.rank_order);
  TRACECAST_ASSERT(order.has_value(), "the scenario's rank order was read");
  return *order;
}

int schedule_shapes(const SearchSpace& space) {
  return static_cast<int>(space.pp.size() * space.vpp.size() * space.pp_schedule.size());
}

/// True if the ranks of the machine differ in their GPUs and in nothing else.
bool only_gpus_differ(const Scenario& scenario) {
  Perturbation others = scenario.perturbation;
  others.gpus.clear();
  return !scenario.perturbation.gpus.empty() && others.none() && scenario.cluster.faults == NetworkFaults{};
}

/// Lower bound of the chunk activations in flight on one rank of the group at its peak.
std::int64_t chunks_in_flight(const PipelineShape& shape, const RankGroup& ranks, const Parallel& p,
                              std::int64_t microbatches) {
  if (shape.chunks_in_flight == nullptr) return 1;
  const int rank = p.pp - 1 - static_cast<int>(ranks.after);
  return shape.chunks_in_flight({.ranks = p.pp, .microbatches = static_cast<int>(microbatches), .chunks = p.vpp}, rank);
}

/// Lower bound of their bytes.
double activations_of(const RankGroup& ranks, const LayerCosts& costs, std::int64_t in_flight, bool offloaded) {
  double largest = 0;
  double smallest = 1e300;
  for (const ModelPart& chunk : ranks.chunks) {
    const double kept = costs.kept_of(chunk, offloaded);
    largest = std::max(largest, kept);
    smallest = std::min(smallest, kept);
  }
  return std::max(largest, static_cast<double>(in_flight) * smallest);
}

}  // namespace

SpaceShapes space_shapes(const Scenario& scenario, const SearchSpace& space, int threads) {
  SpaceShapes shapes{layer_kinds(scenario), {}};
  shapes.of.resize(static_cast<std::size_t>(schedule_shapes(space)));
  const std::size_t schedules = space.pp_schedule.size();
  parallel_for(shapes.of.size(), threads, [&](std::size_t i) {
    Layout layout;
    layout.pp = space.pp[i / schedules / space.vpp.size()];
    layout.vpp = space.vpp[i / schedules % space.vpp.size()];
    layout.pp_schedule = space.pp_schedule[i % schedules];
    if (layout.vpp == 1 || layout.pp > 1) shapes.of[i] = pipeline_shape(scenario, shapes.kinds, layout);
  });
  return shapes;
}

BoundTable::BoundTable(const Scenario& scenario)
    : scenario_(scenario),
      kinds_(layer_kinds(scenario)),
      rank_order_(rank_order_of(scenario)),
      costs_(scenario.profile, scenario.training.attention_kernel),
      network_(make_network(scenario.cluster, scenario.profile)),
      links_(scenario.cluster, scenario.profile.architecture),
      sources_{scenario_, kinds_, costs_, *network_, links_, packs_},
      disturbed_(!scenario.perturbation.none() || scenario.cluster.faults != NetworkFaults{}),
      cuts_(only_gpus_differ(scenario) ? std::make_unique<StageCuts>(scenario) : nullptr) {}

BoundTable::~BoundTable() = default;

/// Some of the rules of make_plan, none stricter, and without their messages: a search asks for millions of layouts.
bool BoundTable::divides(const Layout& layout) const {
  const Model& model = scenario_.model;
  const std::int64_t model_ranks = layout.model_ranks();
  if (scenario_.cluster.world_size % model_ranks != 0) return false;
  if (layout.vpp > 1 && layout.pp == 1) return false;
  const std::int64_t dp = scenario_.cluster.world_size / model_ranks;
  const std::int64_t batch = scenario_.training.global_batch_size;
  if (batch % (layout.micro_batch_size * dp) != 0) return false;
  if (has_attention(model) && model.num_attention_heads % layout.tp != 0) return false;
  if (model.hidden_size % layout.tp != 0 || model.vocab_size % layout.tp != 0) return false;
  if (const auto& linear = model.linear_attention;
      linear && (linear->key_heads % layout.tp != 0 || linear->heads / layout.tp % layout.cp != 0))
    return false;
  if (!model.moe) return layout.ep == 1;
  const int etp = scenario_.parallel.etp == 0 ? layout.tp : scenario_.parallel.etp;
  return model.moe->experts % layout.ep == 0 && layout.tp * layout.cp * dp % (std::int64_t{layout.ep} * etp) == 0;
}

bool BoundTable::can_offload(const LayoutState& state) const {
  const Training& training = state.plan.training;
  if (!training.offload_optimizer && !training.offload_parameters && !training.offload_activations) return true;
  PlanCheck check;
  check_offloading(check, state.plan.parallel, training);
  return check.passed() && scenario_.cluster.node.pcie.bytes_per_second > 0;
}

const LayerCosts& BoundTable::costs_of(const Layout& layout, int dp, bool pairs) {
  pairs = pairs && layout.ep > 1;
  dp = placing_dp(scenario_, layout, dp);
  const auto key = std::tuple(layout.tp, layout.cp, layout.ep, layout.sequence_parallel, layout.micro_batch_size,
                              layout.recompute, dp, pairs);
  std::unique_ptr<LayerCosts>& known = known_costs_[key];
  if (!known) known = std::make_unique<LayerCosts>(layer_costs(sources_, layout, dp, pairs));
  return *known;
}

const ShardTraffic& BoundTable::traffic_of(const Layout& layout, int dp, bool mirrored) {
  std::unique_ptr<ShardTraffic>& known = known_traffic_[{layout.tp, layout.cp, layout.ep, dp, mirrored}];
  if (!known) known = std::make_unique<ShardTraffic>(shard_traffic(sources_, layout, dp, mirrored));
  return *known;
}

const BoundTable::StageParameters& BoundTable::parameters_of(const Layout& layout) {
  std::unique_ptr<StageParameters>& known = known_parameters_[{layout.tp, layout.ep}];
  if (known) return *known;
  known = std::make_unique<StageParameters>();
  Plan plan;
  plan.parallel = scenario_.parallel;
  plan.training = scenario_.training;
  apply_layout(layout, scenario_, plan.parallel, plan.training);
  const auto units = [&](const Stage& stage) { return stage_units(scenario_.model, plan, stage, true); };
  for (const int layer : kinds_.first) known->layer.push_back(units({layer, 1, false, false}).front());
  known->embedding = units({0, 0, true, false}).front();
  for (const RankParameters& unit : units({0, 0, false, true})) known->head += unit;
  return *known;
}

Duration BoundTable::compute_bound(const LayoutState& state) const {
  const PipelineShape& shape = *state.shape;
  const PassTime whole = state.costs->time_of(shape.whole);
  // Costs are means over micro-batches. Those of packed documents differ, so only the sum of all has a mean.
  const bool alike = !scenario_.training.documents;
  std::int64_t bound = alike ? whole.forward + (shape.split_backward ? 0 : whole.backward) : 0;
  const std::int64_t passes = state.microbatches / shape.replicas;
  for (const RankGroup& ranks : shape.ranks) {
    const PassTime before = alike ? state.costs->time_of(ranks.before) : PassTime{};
    const PassTime own = state.costs->time_of(ranks.all);
    const std::int64_t tail = shape.split_backward ? 0 : before.backward;
    const std::int64_t copies = state.shards ? state.traffic->of(ranks.all).copies : 0;
    bound = std::max(bound, before.forward + passes * (own.forward + own.backward + copies) + tail);
  }
  return {bound};
}

Duration BoundTable::cut_bound(const LayoutState& state, const Layout& layout) const {
  const std::optional<StageCut> cut = cuts_->best(layout);
  return {cut ? state.microbatches / state.shape->replicas * cut->longest : 0};
}

std::int64_t BoundTable::stream_bound(const LayoutState& state) {
  const Training& training = state.plan.training;
  const bool copies = training.offload_activations && training.offload_layers == 0;
  if (!state.shards && !copies) return 0;
  const auto pcie = static_cast<double>(scenario_.cluster.node.pcie.bytes_per_second);
  const std::int64_t passes = state.microbatches / state.shape->replicas;
  std::int64_t longest = 0;
  for (const RankGroup& ranks : state.shape->ranks) {
    if (state.shards) {
      const bool separate = state.plan.parallel.separate_gather_group;
      longest = std::max(longest, state.traffic->of(ranks.all).longest(separate));
    }
    if (!copies) continue;
    // The copy of every layer is rounded to a picosecond separately.
    const int layers = ranks.all.sum(std::vector<int>(ranks.all.layers.size(), 1), 0, 0);
    const Duration copy = from_seconds(state.costs->layers_kept_of(ranks.all) / pcie);
    longest = std::max(longest, copy.picoseconds - layers);
  }
  return passes * longest;
}

/// True if domains are filled by ranks of one stage, in each of its groups as many of each domain and at the same places.
bool BoundTable::fills_domains(const Parallel& p) const {
  const int gpus = scenario_.cluster.node.gpus;
  const auto regular = [gpus](int ranks) { return gpus % ranks == 0 || ranks % gpus == 0; };
  int ranks = 1;
  for (const Axis axis : rank_order_) {
    if (axis == Axis::pp) break;
    ranks *= axis == Axis::tp ? p.tp : axis == Axis::cp ? p.cp : p.dp;
    if (!regular(ranks)) return false;
  }
  const bool whole = ranks == p.tp * p.cp * p.dp && ranks % gpus == 0;
  return whole && regular(p.expert_tensor_ranks()) && regular(p.expert_tensor_ranks() * p.ep);
}

/// Picoseconds for which gradients, and with ZeRO-1 and 2 parameters, occupy ports.
double BoundTable::reduced_once(const LayoutState& state, const RankParameters& held) const {
  const Parallel& p = state.plan.parallel;
  const Training& training = state.plan.training;
  const bool hybrid = state.plan.shard_group() != state.plan.gradient_group();
  if (state.traffic == nullptr || state.shards || hybrid || state.shape->replicas > 1) return 0;
  const bool sharded = p.zero_stage >= 1;
  const auto occupation = [&](const PortRates& rates, std::int64_t trained) {
    const double times = reduces_every_microbatch(p, 2) ? static_cast<double>(state.microbatches) : 1;
    const auto bytes = static_cast<double>(trained * reduced_gradient_size(training));
    const double reduced = times * bytes * (sharded ? rates.reduce_scatter : rates.all_reduce);
    if (!sharded || training.offload_optimizer) return reduced;
    const double element = training.fp8_param_gather ? 0.5 : 2;
    return reduced + static_cast<double>(trained) * element * rates.all_gather;
  };
  return occupation(state.traffic->dense, held.trained) + occupation(state.traffic->expert, held.trained_experts);
}

std::int64_t BoundTable::link_bound(const LayoutState& state) const {
  constexpr double kRounding = 1 - 1e-5;  // rates and durations are integers, buckets of up to 4 KiB load no link
  const auto passes = static_cast<double>(state.microbatches / state.shape->replicas);
  double longest = 0;
  for (std::size_t i = 0; i < state.held.size(); ++i) {
    const RankGroup& ranks = state.shape->ranks[i];
    LinkTime sum = state.costs->links_of(ranks.all);
    if (state.shards) sum += state.traffic->links_of(ranks.all);
    sum += state.message * ranks.messages;
    sum = sum * passes;
    longest = std::max({longest, sum.gpu_out, sum.gpu_in});
    if (state.fills_domains) longest = std::max(longest, sum.port + reduced_once(state, state.held[i]));
  }
  return static_cast<std::int64_t>(kRounding * longest);
}

std::int64_t BoundTable::update_bound(const LayoutState& state) {
  if (!state.plan.training.offload_optimizer) return 0;
  const bool sharded = state.plan.parallel.zero_stage >= 1;
  const int shards = sharded ? state.plan.shard_group() : 1;
  const int expert_shards = sharded ? expert_shard_group(state.plan) : 1;
  const int per_host = std::min(scenario_.cluster.node.gpus_per_host, scenario_.cluster.world_size);
  std::int64_t longest = 0;
  for (const RankParameters& held : state.held) {
    const std::int64_t own = held.trained / shards + held.trained_experts / std::max(1, expert_shards);
    longest = std::max(longest, host_update(own, per_host).picoseconds);
  }
  return longest;
}

Bytes BoundTable::memory_bound(const LayoutState& state) {
  const bool offloaded = state.plan.training.offload_activations;
  Bytes tightest;
  for (std::size_t i = 0; i < state.held.size(); ++i) {
    const RankGroup& ranks = state.shape->ranks[i];
    const std::int64_t in_flight = chunks_in_flight(*state.shape, ranks, state.plan.parallel, state.microbatches);
    const double activations = activations_of(ranks, *state.costs, in_flight, offloaded);
    const MemoryByKind states = parameter_states(state.held[i], state.plan);
    Bytes total = states.total() - gradient_copies(states, state.plan) + kFixedMemory;
    total.count += static_cast<std::int64_t>((1 + kFragmentation) * activations);
    tightest = std::max(tightest, total);
  }
  return tightest;
}

LayoutBound BoundTable::bound_of(const LayoutState& state) {
  if (!scenario_.perturbation.gpus.empty()) return {cuts_ ? state.compute : Duration{}, Bytes{}};
  if (disturbed_) return {Duration{}, memory_bound(state)};
  const Duration compute = state.shards ? compute_bound(state) : state.compute;
  const std::int64_t busiest = std::max({compute.picoseconds, stream_bound(state), link_bound(state)});
  return {Duration{busiest + update_bound(state)}, memory_bound(state)};
}

/// Everything except zero_stage and offload, which set_sharding() sets.
BoundTable::LayoutState BoundTable::set_layout(const Layout& layout, const PipelineShape& shape) {
  LayoutState state;
  Parallel& p = state.plan.parallel;
  p = scenario_.parallel;
  state.plan.training = scenario_.training;
  apply_layout(layout, scenario_, p, state.plan.training);
  p.dp = p.replicas_on(scenario_.cluster.world_size);
  state.microbatches = scenario_.training.global_batch_size / (layout.micro_batch_size * p.dp);
  state.plan.num_microbatches = static_cast<int>(state.microbatches);
  state.shape = &shape;
  const StageParameters& parameters = parameters_of(layout);
  for (const RankGroup& ranks : shape.ranks) state.held.push_back(parameters.of(ranks.all));
  state.costs = &costs_of(layout, p.dp, shape.pairs);
  state.compute = cuts_ ? cut_bound(state, layout) : compute_bound(state);
  state.fills_domains = fills_domains(p);
  const bool divided = p.sequence_parallel || p.scatter_gather_p2p;
  const Bytes tensor{state.plan.tokens() * scenario_.model.hidden_size * wide_size(state.plan.training)};
  state.message = links_.of_message(divided ? tensor / p.tp : tensor);
  return state;
}

/// Sets the zero_stage and offload of the layout; false: the machine cannot offload.
bool BoundTable::set_sharding(LayoutState& state, const Layout& layout) {
  Parallel& p = state.plan.parallel;
  apply_sharding(layout, scenario_, p);
  apply_offload(layout, scenario_, state.plan.training);
  const bool reduces = state.plan.gradient_group() > 1 && !has_servers(p) && !averages_parameters(p);
  state.traffic = reduces ? &traffic_of(layout, p.dp, state.shape->replicas > 1) : nullptr;
  state.shards = reduces && p.zero_stage == 3;
  return can_offload(state);
}

std::optional<LayoutBound> BoundTable::bound(const Layout& layout) {
  if (!divides(layout)) return std::nullopt;
  std::unique_ptr<PipelineShape>& shape = known_shapes_[{layout.pp_schedule, layout.pp, layout.vpp}];
  if (!shape) shape = std::make_unique<PipelineShape>(pipeline_shape(scenario_, kinds_, layout));
  if (shape->ranks.empty()) return std::nullopt;
  LayoutState state = set_layout(layout, *shape);
  if (!set_sharding(state, layout)) return std::nullopt;
  return bound_of(state);
}

void BoundTable::append_bounds(const SearchSpace& space, std::int64_t first, const SpaceShapes& shapes,
                               std::vector<BoundedLayout>& bounds) {
  const auto variants = static_cast<std::int64_t>(space.zero_stage.size() * space.offload.size());
  for (std::size_t i = 0; i < shapes.of.size(); ++i) {
    const PipelineShape& shape = shapes.of[i];
    if (shape.ranks.empty()) continue;
    std::int64_t id = first + static_cast<std::int64_t>(i) * variants;
    Layout layout = space.at(id);
    if (space.repeats(layout, scenario_) || !divides(layout)) continue;
    LayoutState state = set_layout(layout, shape);
    for (const int zero_stage : space.zero_stage)
      for (const Offload& offload : space.offload) {
        layout.zero_stage = zero_stage;
        layout.offload = offload;
        const bool repeated = space.repeats(layout, scenario_);
        if (!repeated && set_sharding(state, layout)) bounds.push_back({id, bound_of(state)});
        ++id;
      }
  }
}

}  // namespace tracecast
