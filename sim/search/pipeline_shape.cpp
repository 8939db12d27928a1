#include "sim/search/pipeline_shape.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/graph/layer.hpp"
#include "sim/plan/stages.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

bool does(const Schedule& schedule, std::initializer_list<ActionKind> kinds) {
  const std::vector<Action>& actions = schedule.actions.front();
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    return std::find(kinds.begin(), kinds.end(), action.kind) != kinds.end();
  });
}

ModelPart part_of(const Stage& stage, const LayerKinds& kinds) {
  ModelPart part;
  part.layers.resize(kinds.first.size());
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer)
    ++part.layers[static_cast<std::size_t>(kinds.of[static_cast<std::size_t>(layer)])];
  part.embeddings = stage.embedding ? 1 : 0;
  part.heads = stage.head ? 1 : 0;
  return part;
}

/// The stages of the model; empty if this division is impossible.
std::vector<ModelPart> stage_parts(const Scenario& scenario, const LayerKinds& kinds, const Layout& layout) {
  Parallel parallel = scenario.parallel;
  Training training = scenario.training;
  apply_layout(layout, scenario, parallel, training);
  std::vector<ModelPart> parts;
  if (const Result<std::vector<Stage>> stages = cut_stages(scenario.model, parallel))
    for (const Stage& stage : *stages) parts.push_back(part_of(stage, kinds));
  return parts;
}

/// Groups ranks with the same chunks in any order.
class RankGroups {
 public:
  explicit RankGroups(const std::vector<ModelPart>& stages) : stages_(stages) {
    ModelPart sum;
    for (const ModelPart& stage : stages) {
      before_.push_back(sum);
      sum += stage;
    }
  }

  void add(const std::vector<int>& stage_of, std::int64_t after, int messages) {
    std::vector<ModelPart> chunks;
    for (const int stage : stage_of) chunks.push_back(stages_[static_cast<std::size_t>(stage)]);
    std::sort(chunks.begin(), chunks.end());
    const int first = *std::min_element(stage_of.begin(), stage_of.end());
    const auto [known, added] = sets_.try_emplace(chunks);
    Positions& positions = known->second;
    if (added) positions = {first, after, messages};
    positions = {std::max(positions.first_stage, first), std::max(positions.after, after),
                 std::min(positions.messages, messages)};
  }

  std::vector<RankGroup> take() const {
    std::vector<RankGroup> ranks;
    for (const auto& [chunks, positions] : sets_) {
      RankGroup set;
      for (const ModelPart& chunk : chunks) set.all += chunk;
      set.chunks = chunks;
      set.chunks.erase(std::unique(set.chunks.begin(), set.chunks.end()), set.chunks.end());
      set.before = before_[static_cast<std::size_t>(positions.first_stage)];
      set.after = positions.after;
      set.messages = positions.messages;
      ranks.push_back(std::move(set));
    }
    return ranks;
  }

 private:
  struct Positions {
    int first_stage = 0;
    std::int64_t after = 0;
    int messages = 0;
  };
  const std::vector<ModelPart>& stages_;
  std::vector<ModelPart> before_;  ///< [stage]
  std::map<std::vector<ModelPart>, Positions> sets_;
};

/// Activations and their gradients that a pipeline rank sends to others for each micro-batch.
int messages_of(const Schedule& schedule, std::size_t rank) {
  if (schedule.replicas > 1) return 0;  // half of the micro-batches go each way
  const std::vector<int>& own = schedule.stage_of[rank];
  const auto elsewhere = [&](int stage) {
    return stage >= 0 && stage < schedule.stages() && std::find(own.begin(), own.end(), stage) == own.end();
  };
  int messages = 0;
  for (const int stage : own) messages += (elsewhere(stage + 1) ? 1 : 0) + (elsewhere(stage - 1) ? 1 : 0);
  return messages;
}

}  // namespace

LayerKinds layer_kinds(const Scenario& scenario) {
  Plan plan;
  plan.parallel = scenario.parallel;
  plan.training = scenario.training;
  const LayerWork work(scenario.model, plan);
  LayerKinds kinds;
  std::map<std::string, int> numbers;
  for (int layer = 0; layer < scenario.model.layers(); ++layer) {
    const auto [known, added] = numbers.try_emplace(work.kind(layer), static_cast<int>(kinds.first.size()));
    if (added) kinds.first.push_back(layer);
    kinds.of.push_back(known->second);
  }
  return kinds;
}

ModelPart& ModelPart::operator+=(const ModelPart& other) {
  layers.resize(std::max(layers.size(), other.layers.size()));
  for (std::size_t kind = 0; kind < other.layers.size(); ++kind) layers[kind] += other.layers[kind];
  embeddings += other.embeddings;
  heads += other.heads;
  return *this;
}

Result<Schedule> placement_of(const Layout& layout) {
  const std::string name = layout.pp_schedule.empty() ? default_schedule(layout.vpp) : layout.pp_schedule;
  // Every schedule accepts this number of micro-batches.
  return make_schedule(name, {.ranks = layout.pp, .microbatches = 2 * layout.pp, .chunks = layout.vpp});
}

PipelineShape pipeline_shape(const Scenario& scenario, const LayerKinds& kinds, const Layout& layout) {
  const std::vector<ModelPart> stages = stage_parts(scenario, kinds, layout);
  if (stages.empty()) return {};
  const Result<Schedule> schedule = placement_of(layout);
  if (!schedule || schedule->stages() != static_cast<int>(stages.size())) return {};
  PipelineShape shape;
  for (const ModelPart& stage : stages) shape.whole += stage;
  RankGroups sets(stages);
  const auto ranks = static_cast<std::int64_t>(schedule->stage_of.size());
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    sets.add(schedule->stage_of[static_cast<std::size_t>(rank)], ranks - 1 - rank,
             messages_of(*schedule, static_cast<std::size_t>(rank)));
  shape.ranks = sets.take();
  shape.replicas = schedule->replicas;
  shape.chunks_in_flight = find_schedule(schedule->name)->chunks_in_flight;
  shape.split_backward = does(*schedule, {ActionKind::backward_input, ActionKind::backward_weight});
  shape.pairs = does(*schedule, {ActionKind::forward_backward});
  return shape;
}

}  // namespace tracecast
