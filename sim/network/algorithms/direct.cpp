/// \file
/// Direct point-to-point flows: all_to_all and send_recv. They are not in NCCL's tuner (analytic.cpp has their cost).
#include <algorithm>

#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"

namespace tracecast {
namespace {

Round shifted(const FlowGroup& group, std::int32_t shift, Bytes size) {
  Round round;
  for (std::int32_t rank = 0; rank < group.ranks(); ++rank)
    round.flows.push_back({rank, (rank + shift) % group.ranks(), -1, size});
  return round;
}

/// Adds a flow from every member to the one `nodes` nodes and `places` positions further.
void add_shifted(const FlowGroup& group, std::int32_t nodes, std::int32_t places, Bytes size, Round& round) {
  for (std::int32_t node = 0; node < group.node_count(); ++node) {
    const Members& from = group.nodes[static_cast<std::size_t>(node)];
    const Members& to = group.nodes[static_cast<std::size_t>((node + nodes) % group.node_count())];
    const std::int32_t local = size32(from.size());
    for (std::int32_t i = 0; i < local; ++i) {
      const std::int32_t target = at(to, (i + places) % local);
      const std::int32_t rail = nodes == 0 ? -1 : group.port[static_cast<std::size_t>(target)];
      round.flows.push_back({at(from, i), target, rail, size});
    }
  }
}

/// To every other rank in turn. Rounds inside nodes are concurrent with rounds between nodes, which use other links.
FlowSchedule flows(const CollectiveCall& call, const FlowGroup& group) {
  const Bytes share = call.size / group.ranks();
  if (!group.even())
    return {{}, group.ranks() - 1, [&group, share](std::int64_t i) {
              return shifted(group, static_cast<std::int32_t>(i) + 1, share);
            }};
  const std::int32_t local = size32(group.nodes.front().size());
  const std::int32_t outside = (group.node_count() - 1) * local;
  const Bytes inside = call.forwarded.count > 0 && local > 1 ? call.forwarded / (local - 1) : share;
  return {{}, std::max(outside, local - 1), [&group, share, inside, local, outside](std::int64_t number) {
            const auto i = static_cast<std::int32_t>(number);
            Round round;
            if (i < outside) add_shifted(group, 1 + i / local, i % local, share, round);
            if (i < local - 1) add_shifted(group, 0, 1 + i, inside, round);
            return round;
          }};
}

}  // namespace

constinit const CollectiveAlgorithm kDirect{.value = Algorithm::direct, .flows = flows};

}  // namespace tracecast
