#include "sim/graph/traffic.hpp"

#include <algorithm>

namespace tracecast {
namespace {

class Counter {
 public:
  Counter(const StepGraph& graph, const Rank& rank) : graph_(graph), rank_(rank) {}

  void add(const Op& op) {
    if (op.type == OpType::collective) {
      const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(op.payload)];
      const auto communicator = static_cast<std::size_t>(rank_.communicators[static_cast<std::size_t>(call.slot)]);
      const GroupPlacement& group = graph_.communicators[communicator].placement;
      TrafficCount& count = entry(call.traffic, call.call.collective, call.slot, group.ranks, group.nodes);
      const double sent = add(count, call.moved());
      if (group.nodes > 1) count.sent_far += share_leaving(count.collective, group, group.ranks_per_node) * sent;
    } else if (op.type == OpType::send) {
      add(entry(Traffic::pipeline, Collective::send_recv, -1, 2, 1),
          graph_.messages[static_cast<std::size_t>(op.payload)].size);
    }
  }
  std::vector<TrafficCount> take() { return std::move(counts_); }

 private:
  TrafficCount& entry(Traffic traffic, Collective collective, std::int32_t slot, int ranks, int nodes) {
    const auto found = std::find_if(counts_.begin(), counts_.end(), [&](const TrafficCount& each) {
      return each.traffic == traffic && each.collective == collective && each.slot == slot;
    });
    if (found != counts_.end()) return *found;
    TrafficCount fresh;
    fresh.traffic = traffic;
    fresh.collective = collective;
    fresh.slot = slot;
    fresh.ranks = ranks;
    fresh.nodes = nodes;
    return counts_.emplace_back(fresh);
  }
  /// Bytes that the rank sends: the "bus bandwidth" of a transfer of one second.
  static double add(TrafficCount& count, Bytes size) {
    const double sent = bus_bandwidth(count.collective, count.ranks, size, from_seconds(1));
    ++count.calls;
    count.size += size;
    count.sent += sent;
    return sent;
  }

  const StepGraph& graph_;
  const Rank& rank_;
  std::vector<TrafficCount> counts_;
};

}  // namespace

std::vector<TrafficCount> count_traffic(const StepGraph& graph, std::size_t rank) {
  Counter counter(graph, graph.ranks[rank]);
  for (const ProgramItem& item : graph.programs[static_cast<std::size_t>(graph.ranks[rank].program)])
    for (const Op& op : graph.templates[static_cast<std::size_t>(item.template_index)].ops) counter.add(op);
  return counter.take();
}

}  // namespace tracecast
