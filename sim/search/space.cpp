#include "sim/search/space.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/io/scenario_fields.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/plan/stages.hpp"
#include "sim/search/stage_cut.hpp"

namespace tracecast {
namespace {

template <class Value>
void include(std::vector<Value>& values, Value own) {
  if (std::find(values.begin(), values.end(), own) != values.end()) return;
  values.push_back(own);
  std::sort(values.begin(), values.end());
}

/// Powers of two up to `most` that satisfy `allowed`.
template <class Allowed>
std::vector<int> powers_of_two(int most, Allowed allowed) {
  std::vector<int> values;
  for (int value = 1; value <= most; value *= 2)
    if (allowed(value)) values.push_back(value);
  return values;
}

std::vector<int> pipeline_degrees(const Model& model, int ranks) {
  constexpr int kMaxStages = 128;
  std::vector<int> values;
  for (int pp = 1; pp <= std::min(kMaxStages, model.layers() + 2); ++pp)
    if (ranks % pp == 0) values.push_back(pp);
  return values;
}

/// Those of the layouts that name none.
bool is_default_schedule(const std::string& name) {
  return name.empty() || name == default_schedule(1) || name == default_schedule(2);
}

/// All choices of a layout with their values, the one that changes fastest with its number first.
template <class Visit>
void each_choice(const SearchSpace& space, const Visit& visit) {
  visit(&Layout::offload, space.offload);
  visit(&Layout::zero_stage, space.zero_stage);
  visit(&Layout::pp_schedule, space.pp_schedule);
  visit(&Layout::vpp, space.vpp);
  visit(&Layout::pp, space.pp);
  visit(&Layout::recompute, space.recompute);
  visit(&Layout::micro_batch_size, space.micro_batch_size);
  visit(&Layout::sequence_parallel, space.sequence_parallel);
  visit(&Layout::ep, space.ep);
  visit(&Layout::cp, space.cp);
  visit(&Layout::tp, space.tp);
}

template <class Choice, class Value>
void choose(Layout& layout, Choice Layout::*choice, const Value& value) {
  layout.*choice = static_cast<Choice>(value);
}

/// Calls `changed` with every key that differs from the scenario's, and its other value.
void for_changes(const Scenario& scenario, const Parallel& parallel, const Training& training, const auto& changed) {
  const auto compare = [&](const char* group, const JsonNode& from, const JsonNode& to) {
    for (const auto& [key, value] : to.members)
      if (const std::string text = value.setting_text(); text != from.find(key)->setting_text())
        changed(fmt::format("{}.{}", group, key), text);
  };
  compare("parallel", write_fields(scenario.parallel, true), write_fields(parallel, true));
  compare("training", write_fields(scenario.training, true), write_fields(training, true));
}

/// Is a parameter on several ranks, so that its optimizer states can be divided? Experts may be where dense layers are not.
bool has_copies(const Layout& layout, const Scenario& scenario) {
  if (std::int64_t{layout.tp} * layout.pp != scenario.cluster.world_size) return true;
  return scenario.model.moe && scenario.parallel.etp > 0 && layout.ep * scenario.parallel.etp < layout.tp;
}

/// HYBRID_SHARD's group is that of a host, and not given by the user.
bool has_group_of_host(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const Cluster& cluster = scenario.cluster;
  return p.sharding_strategy != ShardingStrategy::by_zero_stage &&
         !scenario.locations.contains("parallel.shard_group") &&
         p.shard_group == shard_group_of_host(p, cluster.node.gpus_per_host, cluster.world_size);
}

std::int64_t count(const auto& values) { return static_cast<std::int64_t>(values.size()); }

}  // namespace

std::string to_string(const Offload& offload) {
  std::string text;
  for (const auto& [part, name] :
       {std::pair(offload.optimizer, "optimizer"), std::pair(offload.parameters, "parameters"),
        std::pair(offload.activations, "activations")})
    if (part) text += (text.empty() ? "" : "+") + std::string(name);
  return text.empty() ? "none" : text;
}

std::optional<Offload> parse_offload(std::string_view text) {
  for (int parts = 0; parts < 8; ++parts) {
    const Offload offload{(parts & 1) != 0, (parts & 2) != 0, (parts & 4) != 0};
    if (to_string(offload) == text) return offload;
  }
  return std::nullopt;
}

std::vector<Offload> usual_offloads() {
  return {{}, {.optimizer = true}, {.optimizer = true, .parameters = true}, {.activations = true}, {true, true, true}};
}

std::int64_t SearchSpace::size() const {
  return count(tp) * count(cp) * count(ep) * count(sequence_parallel) * count(micro_batch_size) * count(recompute) *
         layouts_per_layer_cost();
}

std::int64_t SearchSpace::layouts_per_layer_cost() const {
  return count(pp) * count(vpp) * count(pp_schedule) * count(zero_stage) * count(offload);
}

bool SearchSpace::repeats(const Layout& layout, const Scenario& scenario) const {
  if (layout.tp == 1 && layout.sequence_parallel != static_cast<bool>(sequence_parallel.front())) return true;
  if (layout.zero_stage > 1 || layout.offload != Offload{} || has_copies(layout, scenario)) return false;
  return layout.zero_stage != *std::ranges::find_if(zero_stage, [](int stage) { return stage <= 1; });
}

Layout SearchSpace::at(std::int64_t id) const {
  TRACECAST_ASSERT(id >= 0 && id < size(), "the number of a layout is in its space");
  Layout layout;
  layout.id = id;
  each_choice(*this, [&](auto choice, const auto& values) {
    choose(layout, choice, values[static_cast<std::size_t>(id % count(values))]);
    id /= count(values);
  });
  return layout;
}

std::int64_t SearchSpace::id_of(const Layout& layout) const {
  std::int64_t id = 0;
  std::int64_t stride = 1;
  each_choice(*this, [&](auto choice, const auto& values) {
    const auto found = std::find(values.begin(), values.end(), layout.*choice);
    if (found != values.end()) id += stride * (found - values.begin());
    stride *= count(values);
  });
  return id;
}

SearchSpace default_space(const Scenario& scenario, int ranks) {
  constexpr std::int64_t kLongSequence = 32 * 1024;
  const Model& model = scenario.model;
  const Parallel& parallel = scenario.parallel;
  const Training& training = scenario.training;
  SearchSpace space;
  space.tp = powers_of_two(std::min({16, scenario.cluster.node.gpus, ranks}),
                           [&](int tp) { return model.num_attention_heads % tp == 0; });
  space.pp = pipeline_degrees(model, ranks);
  space.vpp.clear();
  for (int vpp = 1; vpp <= std::min(8, model.layers() + 2); ++vpp) space.vpp.push_back(vpp);
  if (training.seq_length >= kLongSequence)
    space.cp = powers_of_two(16, [&](int cp) { return training.seq_length % (2 * cp) == 0; });
  if (model.moe) space.ep = powers_of_two(std::min(64, ranks), [&](int ep) { return model.moe->experts % ep == 0; });
  space.micro_batch_size.clear();
  for (std::int64_t size = 1; size <= 8; size *= 2)
    if (training.global_batch_size % size == 0) space.micro_batch_size.push_back(size);
  space.recompute = {Recompute::none, Recompute::selective, Recompute::full};
  space.zero_stage = {0, 1, 3};
  include(space.tp, parallel.tp);
  include(space.cp, parallel.cp);
  include(space.ep, parallel.ep);
  include(space.pp, parallel.pp);
  include(space.vpp, parallel.vpp);
  include(space.micro_batch_size, training.micro_batch_size);
  include(space.recompute, training.recompute);
  if (!is_default_schedule(parallel.pp_schedule)) space.pp_schedule.push_back(parallel.pp_schedule);
  include(space.zero_stage, parallel.zero_stage);
  if (parallel.tp > 1) include(space.sequence_parallel, static_cast<char>(parallel.sequence_parallel));
  include(space.offload, layout_of(scenario).offload);
  return space;
}

void apply_sharding(const Layout& layout, const Scenario& scenario, Parallel& p) {
  const Parallel& own = scenario.parallel;
  const Cluster& cluster = scenario.cluster;
  const bool no_shard = own.sharding_strategy == ShardingStrategy::no_shard;
  p.zero_stage = layout.zero_stage;
  // As the scenario is read with this stage.
  const std::optional<bool> overlaps = rules_of(p).overlaps_unless_told;
  const auto by_stage = [&](const char* key) {
    return overlaps && scenario.stack == "deepspeed" && !scenario.locations.contains(key);
  };
  if (by_stage("parallel.overlap_grad_reduce")) p.overlap_grad_reduce = *overlaps;
  if (by_stage("parallel.overlap_param_gather")) p.overlap_param_gather = *overlaps;
  p.sharding_strategy =
      layout.zero_stage == (no_shard ? 0 : 3) ? own.sharding_strategy : ShardingStrategy::by_zero_stage;
  p.reshard_group = layout.zero_stage == 3 ? own.reshard_group : 0;
  p.shard_group = layout.zero_stage == 0        ? 0
                  : has_group_of_host(scenario) ? shard_group_of_host(p, cluster.node.gpus_per_host, cluster.world_size)
                                                : own.shard_group;
}

void apply_offload(const Layout& layout, const Scenario& scenario, Training& training) {
  training.offload_optimizer = layout.offload.optimizer;
  training.offload_parameters = layout.offload.parameters;
  training.offload_activations = layout.offload.activations;
  training.offload_layers = layout.offload.activations ? scenario.training.offload_layers : 0;
}

void apply_layout(const Layout& layout, const Scenario& scenario, Parallel& p, Training& training) {
  p.tp = layout.tp;
  p.cp = layout.cp;
  p.ep = layout.ep;
  p.pp = layout.pp;
  p.vpp = layout.vpp;
  p.dp = 0;
  p.pp_schedule = layout.pp_schedule;
  apply_sharding(layout, scenario, p);
  p.sequence_parallel = layout.sequence_parallel && layout.tp > 1;
  if (layout.tp > 1 && !p.sequence_parallel) p.tp_comm_overlap = false;
  p.pp_layout.clear();
  p.account_for_embedding = p.account_for_loss = scenario.model.layers() % layout.stages() != 0;
  training.micro_batch_size = layout.micro_batch_size;
  training.recompute = layout.recompute;
  apply_offload(layout, scenario, training);
}

Scenario with_layout(const Scenario& scenario, const Layout& layout) {
  Scenario result = scenario;
  if (layout.id == kOwnLayout) return result;
  apply_layout(layout, scenario, result.parallel, result.training);
  if (scenario.perturbation.gpus.empty()) return result;
  if (std::optional<StageCut> cut = StageCuts(scenario).best(layout)) {
    result.parallel.pp_layout = std::move(cut->layers);
    result.parallel.account_for_embedding = result.parallel.account_for_loss = false;
  }
  return result;
}

std::vector<std::string> layout_settings(const Scenario& scenario, const Layout& layout) {
  const Scenario other = with_layout(scenario, layout);
  std::vector<std::string> settings;
  for_changes(scenario, other.parallel, other.training,
              [&](const std::string& key, const std::string& value) { settings.push_back(key + "=" + value); });
  return settings;
}

std::set<std::string> searched_keys(const Scenario& scenario, const SearchSpace& space) {
  std::set<std::string> keys;
  // A key depends on one choice, so each is tried alone, with the last values of the others.
  each_choice(space, [&](auto choice, const auto& values) {
    for (const auto& value : values) {
      Layout layout = space.at(space.size() - 1);
      choose(layout, choice, value);
      Parallel parallel = scenario.parallel;
      Training training = scenario.training;
      apply_layout(layout, scenario, parallel, training);
      for_changes(scenario, parallel, training, [&](const std::string& key, const auto&) { keys.insert(key); });
    }
  });
  return keys;
}

std::string describe_cut(const Scenario& scenario, const Layout& layout) {
  const Scenario other = with_layout(scenario, layout);
  const Result<std::vector<Stage>> stages = cut_stages(other.model, other.parallel);
  TRACECAST_ASSERT(stages.has_value(), "the layout is possible");
  std::string text;
  bool even = true;
  for (std::size_t i = 0, next = 0; i < stages->size(); i = next) {
    const int layers = (*stages)[i].num_layers;
    for (next = i; next < stages->size() && (*stages)[next].num_layers == layers;) ++next;
    even = even && next - i == stages->size();
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", layers, next - i > 1 ? fmt::format(" x {}", next - i) : "");
  }
  return even ? "" : fmt::format("stages of {} layers", text);
}

Layout layout_of(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const Training& t = scenario.training;
  Layout layout;
  layout.id = kOwnLayout;
  layout.tp = p.tp;
  layout.cp = p.cp;
  layout.ep = p.ep;
  layout.sequence_parallel = p.tp == 1 || p.sequence_parallel;
  layout.micro_batch_size = t.micro_batch_size;
  layout.recompute = t.recompute;
  layout.pp = p.pp;
  layout.vpp = p.vpp;
  layout.pp_schedule = p.pp_schedule;
  layout.zero_stage = p.zero_stage;
  layout.offload = {t.offload_optimizer, t.offload_parameters, t.offload_activations};
  return layout;
}

std::string describe(const Layout& layout, int ranks) {
  std::string text = fmt::format("tp {}, pp {}", layout.tp, layout.pp);
  if (layout.vpp > 1) text += fmt::format(", vpp {}", layout.vpp);
  if (!layout.pp_schedule.empty()) text += ", " + layout.pp_schedule;
  if (layout.cp > 1) text += fmt::format(", cp {}", layout.cp);
  if (layout.ep > 1) text += fmt::format(", ep {}", layout.ep);
  if (layout.tp > 1 && !layout.sequence_parallel) text += ", no sequence parallelism";
  text +=
      fmt::format(", dp {}, micro-batch {}, {} recomputation", ranks / layout.model_ranks(), layout.micro_batch_size,
                  layout.recompute == Recompute::none ? "no" : to_string(layout.recompute));
  if (layout.zero_stage > 0) text += fmt::format(", ZeRO-{}", layout.zero_stage);
  if (layout.offload != Offload{}) text += fmt::format(", {} on the host", to_string(layout.offload));
  return text;
}

}  // namespace tracecast
