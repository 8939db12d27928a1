#include "sim/engine/lockstep.hpp"

#include <algorithm>

#include "sim/graph/shared_transfers.hpp"

namespace tracecast::engine {
namespace {

/// [stream] the slot of its collectives, if a fused run could contain all of its operations; else -1.
std::vector<std::int32_t> slots_of_streams(const StepGraph& graph, std::vector<std::int64_t>& collectives) {
  constexpr std::int32_t kUnknown = -2;
  std::vector<std::int32_t> slots(graph.streams.size(), kUnknown);
  collectives.assign(graph.streams.size(), 0);
  for (const Template& each : graph.templates)
    for (const Op& op : each.ops) {
      if (op.stream == kComputeStream || op.type == OpType::host_sync) continue;
      std::int32_t& slot = slots[op.stream];
      const std::int32_t own =
          waits_for_local_events(op) ? graph.collectives[static_cast<std::size_t>(op.payload)].slot : -1;
      slot = slot == kUnknown || slot == own ? own : -1;
      ++collectives[op.stream];
    }
  return slots;
}

/// A rank that is alone may be slow: it needs no other rank, and fuses its operations.
bool run_alike(const StepGraph& graph, const Communicator& group) {
  const auto rank = [&](std::int32_t member) -> const Rank& { return graph.ranks[static_cast<std::size_t>(member)]; };
  const Rank& first = rank(group.members.front());
  return std::all_of(group.members.begin(), group.members.end(), [&](std::int32_t member) {
    const Rank& other = rank(member);
    const bool at_full_speed = group.members.size() == 1 || other.slowdown == kNoSlowdown;
    return other.program == first.program && at_full_speed && other.first_batch < 0;
  });
}

bool share_links(const StepGraph& graph, std::int32_t slot, std::int32_t communicator, const SharedTransfers& shared) {
  for (std::size_t i = 0; i < graph.collectives.size(); ++i)
    if (graph.collectives[i].slot == slot && shared.of_collective(communicator, static_cast<std::int32_t>(i)) >= 0)
      return true;
  return false;
}

}  // namespace

LocalStreams streams_of(const Lockstep& lockstep, std::size_t count) {
  LocalStreams result{true, std::vector<bool>(count, false)};
  result.local[kComputeStream] = result.local[lockstep.stream] = true;
  return result;
}

Lockstep find_lockstep(const StepGraph& graph, const SharedTransfers* shared) {
  Lockstep lockstep;
  std::vector<std::int64_t> collectives;
  const std::vector<std::int32_t> slots = slots_of_streams(graph, collectives);
  std::int64_t most = 0;
  for (std::size_t stream = kComputeStream + 1; stream < slots.size(); ++stream)
    if (slots[stream] >= 0 && collectives[stream] > most) {
      most = collectives[stream];
      lockstep.stream = static_cast<StreamId>(stream);
      lockstep.slot = slots[stream];
    }
  if (lockstep.slot < 0) return lockstep;
  const auto slot = static_cast<std::size_t>(lockstep.slot);
  lockstep.members.assign(graph.communicators.size(), 0);
  for (const Rank& rank : graph.ranks) {
    const std::int32_t communicator = slot < rank.communicators.size() ? rank.communicators[slot] : -1;
    if (communicator < 0 || lockstep.members[static_cast<std::size_t>(communicator)] != 0) continue;
    const Communicator& group = graph.communicators[static_cast<std::size_t>(communicator)];
    if (run_alike(graph, group) && (shared == nullptr || !share_links(graph, lockstep.slot, communicator, *shared)))
      lockstep.members[static_cast<std::size_t>(communicator)] = static_cast<std::int32_t>(group.members.size());
  }
  return lockstep;
}

}  // namespace tracecast::engine
