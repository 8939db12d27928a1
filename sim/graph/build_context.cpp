#include "sim/graph/build_context.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tracecast {

BuildContext::BuildContext(const Model& model_in, const Plan& plan_in, const Schedule& schedule_in,
                           const Cluster& cluster_in, const Costs& costs, const NetworkModel& network_in)
    : model(model_in),
      plan(plan_in),
      schedule(schedule_in),
      cluster(cluster_in),
      network(network_in),
      work(model, plan, expert_nodes(plan, cluster)),
      units(model, plan, work),
      seats(schedule),
      groups(plan, seats.first().rank, seats.last().rank),
      table(graph, costs, network, slot_placements()),
      launch(
          from_seconds(plan.training.cuda_graphs ? costs.profile().host.graph_launch : costs.profile().host.launch)) {
  graph.microbatches = schedule.microbatches;
  graph.rank_events = 4 * schedule.chunks * schedule.microbatches;  // the ends of the pipeline's channels
}

EventRef BuildContext::rank_event(const char* purpose, int chunk, int index, bool per_microbatch) {
  const auto [found, added] = events_.try_emplace({purpose, chunk, index}, graph.rank_events);
  if (added) graph.rank_events += per_microbatch ? schedule.microbatches : 1;
  return {found->second, per_microbatch ? 1 : 0};
}

std::string BuildContext::signature(const char* kind, const Chunk& chunk, bool special) const {
  std::string layers;
  for (int layer = chunk.stage.first_layer; layer < chunk.stage.first_layer + chunk.stage.num_layers; ++layer)
    layers += work.kind(layer) + ' ';
  return fmt::format("{} {} {} {}{}{} {} {} {} {}", kind, chunk.index, layers, chunk.stage.embedding, chunk.stage.head,
                     special, chunk.receive_forward, chunk.send_forward, chunk.receive_backward, chunk.send_backward);
}

/// How many groups like this one have members in the node of its first member.
GroupPlacement BuildContext::placement_of(const std::vector<int>& members) const {
  int here = 0;
  for (int member : members) here += cluster.node_of(member) == cluster.node_of(members.front()) ? 1 : 0;
  return place(cluster, members, std::max(1, std::min(cluster.node.gpus, cluster.world_size) / std::max(1, here)));
}

std::vector<GroupPlacement> BuildContext::slot_placements() const {
  std::vector<GroupPlacement> placements;
  for (int slot = 0; slot < kSlots; ++slot) {
    Coordinates first{};
    if (static_cast<Slot>(slot) == Slot::embedding) first[Axis::pp] = seats.first().rank;
    placements.push_back(placement_of(groups.members(plan.grid.rank(first), static_cast<Slot>(slot))));
  }
  return placements;
}

}  // namespace tracecast
