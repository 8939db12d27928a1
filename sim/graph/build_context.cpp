#include "sim/graph/build_context.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// What a description is of: its first entry.
enum Described : std::int32_t { kKind, kChunk, kChunks };

std::vector<const Costs*> all_costs(const StepInputs& inputs, const std::vector<const Costs*>& others) {
  std::vector<const Costs*> all{&inputs.costs};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

}  // namespace

Groups groups_of(const Model& model, const Plan& plan, const Schedule& schedule) {
  const StagePlacement stages(schedule);
  return {plan,
          stages.first().rank,
          stages.last().rank,
          {.experts = model.moe.has_value(),
           .embedding = (model.tied_embeddings || model.mtp_layers > 0) && !stages.joins_ends(),
           .mirrors = schedule.replicas > 1,
           .gathers = plan.parallel.separate_gather_group}};
}

BuildContext::BuildContext(const StepInputs& inputs, const std::vector<const Costs*>& other_costs)
    : model(inputs.model),
      plan(inputs.plan),
      schedule(inputs.schedule),
      cluster(inputs.cluster),
      network(inputs.network),
      updates_every_backward(tracecast::updates_every_backward(plan.parallel)),
      stage_placement(schedule),
      work(model, plan, expert_nodes(plan, cluster), stage_placement.joins_ends()),
      units(model, plan, work),
      groups(groups_of(model, plan, schedule)),
      placements(plan, cluster, groups),
      table(graph, all_costs(inputs, other_costs), network, plan) {
  graph.microbatches = schedule.microbatches;
  graph.rank_events = 4 * schedule.chunks * schedule.microbatches;  // the ends of the pipeline's channels
}

/// Numbered when they are first asked for: the planner's bounds do without.
std::int32_t BuildContext::layer_kind(int layer) {
  if (layer_kinds_.empty()) {
    std::map<std::string, std::int32_t> kinds;
    for (int each = 0; each < model.layers(); ++each)
      layer_kinds_.push_back(kinds.try_emplace(work.kind(each), static_cast<std::int32_t>(kinds.size())).first->second);
  }
  return layer_kinds_[static_cast<std::size_t>(layer)];
}

BuildContext::Context::Context(const BuildContext& whole, int ranks)
    : plan(whole.plan), work(whole.model, plan, expert_nodes(plan, whole.cluster), whole.stage_placement.joins_ends()) {
  plan.packed = std::make_shared<const PackedSteps>(bins_of_size(*plan.packed, ranks, plan.parallel.cp));
  plan.parallel.cp = ranks;
  plan.training.seq_length = plan.packed->sequence;
}

void BuildContext::select_context(int ranks) {
  context_ranks_ = ranks;
  table.select_context(ranks);
  if (ranks > 0) contexts_.try_emplace(ranks, *this, ranks);
}

void BuildContext::select(const RankKind& kind) {
  kind_ = kind;
  std::vector<std::int32_t> description{kKind, kind.gpu};
  description.insert(description.end(), kind.slots.begin(), kind.slots.end());
  kind_number_ = number_of(std::move(description));
  std::vector<GroupPlacement> slots;
  slots.reserve(kind.slots.size());
  for (const std::int32_t number : kind.slots) slots.push_back(placements.of(number));
  table.select(kind.gpu, kind.slots, std::move(slots));
}

TemplateWriter::Launch BuildContext::launch() const {
  const HostModel& host = table.costs().profile().host;
  const Duration graphed = from_seconds(host.graph_launch);
  if (plan.training.cuda_graphs) return {graphed, graphed, graphed};
  const bool one_kernel = plan.training.fused_experts;
  return {from_seconds(host.launch), graphed, from_seconds(host.call),
          one_kernel ? Duration{} : from_seconds(host.launch_per_expert)};
}

const WorkList& BuildContext::forward_work(int layer) {
  const auto [found, added] = forward_work_.try_emplace({layer_kind(layer), context_ranks_});
  if (added) found->second = pass_work().forward(layer);
  return found->second;
}

const WorkList& BuildContext::backward_work(int layer, BackwardPart part, bool recompute_all) {
  const std::tuple key{layer_kind(layer), context_ranks_, part, recompute_all};
  const auto [found, added] = backward_work_.try_emplace(key);
  if (added) found->second = pass_work().backward(layer, part, recompute_all);
  return found->second;
}

EventRef BuildContext::rank_event(const char* purpose, int chunk, int index, bool per_microbatch) {
  per_microbatch = per_microbatch || updates_every_backward;
  const auto [found, added] = events_.try_emplace({purpose, chunk, index}, graph.rank_events);
  if (added) graph.rank_events += per_microbatch ? schedule.microbatches : 1;
  return {found->second, per_microbatch ? 1 : 0};
}

std::int32_t BuildContext::number_of(std::vector<std::int32_t> description) {
  return numbers_.try_emplace(std::move(description), static_cast<std::int32_t>(numbers_.size())).first->second;
}

std::int32_t BuildContext::number_of(const Chunk& chunk) {
  const Stage& stage = chunk.stage;
  std::vector<std::int32_t> description{kChunk,
                                        kind_number_,
                                        chunk.index,
                                        stage.embedding ? 1 : 0,
                                        stage.head ? 1 : 0,
                                        chunk.receive_forward,
                                        chunk.send_forward,
                                        chunk.receive_backward,
                                        chunk.send_backward};
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer)
    description.push_back(layer_kind(layer));
  return number_of(std::move(description));
}

std::int32_t BuildContext::number_of(const std::vector<Chunk>& chunks) {
  std::vector<std::int32_t> description{kChunks};
  for (const Chunk& chunk : chunks) description.push_back(chunk.number);
  return number_of(std::move(description));
}

Template BuildContext::empty_template(TemplateKind kind, int chunk) {
  Template result;
  result.chunk = static_cast<std::int16_t>(chunk);
  const auto set = [&](std::string name, Phase phase) {
    result.name = std::move(name);
    result.phase = phase;
  };
  const auto pass = [chunk](const char* name) { return fmt::format("{} chunk {}", name, chunk); };
  switch (kind) {
    case TemplateKind::begin:
      set("begin", Phase::forward);
      break;
    case TemplateKind::receive_forward:
      set("receive", Phase::forward);
      break;
    case TemplateKind::receive_backward:
      set("receive", Phase::backward);
      break;
    case TemplateKind::forward:
      set(pass("forward"), Phase::forward);
      break;
    case TemplateKind::backward:
      set(pass("backward"), Phase::backward);
      break;
    case TemplateKind::input_gradients:
      set(pass("input gradient"), Phase::backward);
      break;
    case TemplateKind::weight_gradients:
      set(pass("weight gradient"), Phase::weight_gradient);
      break;
    case TemplateKind::reduce:
      set("gradient norm", Phase::optimizer);
      break;
    case TemplateKind::optimizer:
      set("optimizer", Phase::optimizer);
      break;
  }
  return result;
}

}  // namespace tracecast
