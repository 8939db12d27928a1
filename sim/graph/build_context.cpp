#include "sim/graph/build_context.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tracecast {

Groups groups_of(const Model& model, const Plan& plan, const Schedule& schedule) {
  const PipelineSeats seats(schedule);
  return {plan,
          seats.first().rank,
          seats.last().rank,
          {model.moe.has_value(), model.tied_embeddings || model.mtp_layers > 0, schedule.replicas > 1}};
}

BuildContext::BuildContext(const Model& model_in, const Plan& plan_in, const Schedule& schedule_in,
                           const Cluster& cluster_in, std::vector<const Costs*> costs, const NetworkModel& network_in)
    : model(model_in),
      plan(plan_in),
      schedule(schedule_in),
      cluster(cluster_in),
      network(network_in),
      work(model, plan, expert_nodes(plan, cluster)),
      units(model, plan, work),
      seats(schedule),
      groups(groups_of(model, plan, schedule)),
      placements(plan, cluster, groups),
      table(graph, std::move(costs), network) {
  graph.microbatches = schedule.microbatches;
  graph.rank_events = 4 * schedule.chunks * schedule.microbatches;  // the ends of the pipeline's channels
  std::map<std::string, std::int32_t> kinds;
  for (int layer = 0; layer < model.layers(); ++layer)
    layer_kinds_.push_back(kinds.try_emplace(work.kind(layer), static_cast<std::int32_t>(kinds.size())).first->second);
}

void BuildContext::select(const RankKind& kind) {
  kind_ = kind;
  kind_signature_ = fmt::format("{} {}", kind.gpu, fmt::join(kind.slots, " "));
  std::vector<GroupPlacement> slots;
  slots.reserve(kind.slots.size());
  for (const std::int32_t number : kind.slots) slots.push_back(placements.of(number));
  table.select(kind.gpu, kind.slots, std::move(slots));
}

Duration BuildContext::launch() const {
  const HostModel& host = table.costs().profile().host;
  return from_seconds(plan.training.cuda_graphs ? host.graph_launch : host.launch);
}

const WorkList& BuildContext::forward_work(int layer) {
  const auto [found, added] = forward_work_.try_emplace(layer_kinds_[static_cast<std::size_t>(layer)]);
  if (added) found->second = work.forward(layer);
  return found->second;
}

const WorkList& BuildContext::backward_work(int layer, BackwardPart part, bool recompute_all) {
  const std::tuple key{layer_kinds_[static_cast<std::size_t>(layer)], part, recompute_all};
  const auto [found, added] = backward_work_.try_emplace(key);
  if (added) found->second = work.backward(layer, part, recompute_all);
  return found->second;
}

EventRef BuildContext::rank_event(const char* purpose, int chunk, int index, bool per_microbatch) {
  const auto [found, added] = events_.try_emplace({purpose, chunk, index}, graph.rank_events);
  if (added) graph.rank_events += per_microbatch ? schedule.microbatches : 1;
  return {found->second, per_microbatch ? 1 : 0};
}

std::string BuildContext::signature(const char* kind, const Chunk& chunk, bool special) const {
  std::string layers;
  for (int layer = chunk.stage.first_layer; layer < chunk.stage.first_layer + chunk.stage.num_layers; ++layer)
    layers += std::to_string(layer_kinds_[static_cast<std::size_t>(layer)]) + ' ';
  return fmt::format("{} {} {} {} {}{}{} {} {} {} {}", kind_signature(), kind, chunk.index, layers,
                     chunk.stage.embedding, chunk.stage.head, special, chunk.receive_forward, chunk.send_forward,
                     chunk.receive_backward, chunk.send_backward);
}

}  // namespace tracecast
