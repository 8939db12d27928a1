#include "sim/engine/own_streams.hpp"

#include <algorithm>

#include "sim/graph/shared_transfers.hpp"

namespace tracecast::engine {
namespace {

/// [slot] whether each rank that has a communicator there meets nobody in it, and shares no links.
std::vector<bool> lone_slots(const StepGraph& graph, const SharedTransfers* shared) {
  std::size_t slots = 0;
  for (const Rank& rank : graph.ranks) slots = std::max(slots, rank.communicators.size());
  std::vector<bool> lone(slots, true);
  for (const Rank& rank : graph.ranks)
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot) {
      const std::int32_t communicator = rank.communicators[slot];
      if (communicator >= 0 && graph.communicators[static_cast<std::size_t>(communicator)].members.size() != 1)
        lone[slot] = false;
    }
  if (shared == nullptr) return lone;
  for (std::size_t i = 0; i < graph.collectives.size(); ++i) {
    const auto slot = static_cast<std::size_t>(graph.collectives[i].slot);
    for (const Rank& rank : graph.ranks) {
      if (slot >= rank.communicators.size() || !lone[slot]) continue;
      const std::int32_t communicator = rank.communicators[slot];
      if (communicator >= 0 && shared->of_collective(communicator, static_cast<std::int32_t>(i)) >= 0)
        lone[slot] = false;
    }
  }
  return lone;
}

/// Whether the compute stream may run `op` as far as it alone tells.
bool can_be_own(const StepGraph& graph, const Op& op, const std::vector<bool>& lone) {
  if (op.type != OpType::collective || op.waits.empty()) return false;
  const std::int32_t slot = graph.collectives[static_cast<std::size_t>(op.payload)].slot;
  if (slot < 0 || static_cast<std::size_t>(slot) >= lone.size() || !lone[static_cast<std::size_t>(slot)]) return false;
  return (op.records.none() || op.records.local()) &&
         std::all_of(op.waits.begin(), op.waits.end(), [](EventRef ref) { return ref.local(); });
}

}  // namespace

OwnStreams find_own_streams(const StepGraph& graph, const SharedTransfers* shared) {
  OwnStreams streams{true, std::vector<bool>(graph.streams.size(), true)};
  if (std::any_of(graph.ranks.begin(), graph.ranks.end(), [](const Rank& r) { return r.slowness != kFullSpeed; }))
    return {};
  const std::vector<bool> lone = lone_slots(graph, shared);
  for (const Template& each : graph.templates)
    for (const Op& op : each.ops)
      if (op.type != OpType::host_sync && op.stream != kComputeStream && !can_be_own(graph, op, lone))
        streams.own[op.stream] = false;
  TemplateReading reading(graph, streams);
  for (std::size_t i = 0; i < graph.templates.size();) {
    if (reading.read(graph.templates[i])) {
      ++i;
      continue;
    }
    if (reading.culprit() == kComputeStream) return {};
    streams.own[reading.culprit()] = false;
    i = 0;  // fewer own streams make more segments: what held may not any more
  }
  return streams;
}

bool TemplateReading::read(const Template& source) {
  std::fill(recorder_.begin(), recorder_.end(), -1);
  segment_.assign(source.ops.size(), -1);
  heard_outside_.assign(source.ops.size(), false);
  count_ = 0;
  return place(source) && find_listeners(source);
}

/// Whether all that it waits for is recorded before it in the segment that is being written.
bool TemplateReading::waits_inside(const Op& op) const {
  return std::all_of(op.waits.begin(), op.waits.end(), [this](EventRef ref) {
    return ref.local() && recorder(ref) >= 0 && segment_[static_cast<std::size_t>(recorder(ref))] == count_ - 1;
  });
}

bool TemplateReading::place(const Template& source) {
  for (std::size_t i = 0; i < source.ops.size(); ++i) {
    const Op& op = source.ops[i];
    if (own(op)) {
      const bool inside = count_ > 0 && waits_inside(op);
      if (!inside && op.stream != kComputeStream) {
        culprit_ = op.stream;
        return false;
      }
      if (!inside) ++count_;
      segment_[i] = count_ - 1;
    }
    if (op.records.none() || !op.records.local()) continue;
    std::int32_t& recorder = recorder_[static_cast<std::size_t>(op.records.base)];
    if (recorder >= 0) {
      culprit_ = kComputeStream;
      return false;
    }
    recorder = static_cast<std::int32_t>(i);
  }
  return true;
}

/// Nobody but own streams may wait for an own stream, and only later in the template's order.
bool TemplateReading::find_listeners(const Template& source) {
  for (std::size_t i = 0; i < source.ops.size(); ++i) {
    const Op& op = source.ops[i];
    if (op.records.none()) continue;
    if (!op.records.local()) heard_outside_[i] = true;
  }
  for (std::size_t i = 0; i < source.ops.size(); ++i)
    for (const EventRef ref : source.ops[i].waits) {
      if (!ref.local() || recorder(ref) < 0) continue;
      const auto by = static_cast<std::size_t>(recorder(ref));
      if (segment_[by] < 0) continue;
      const StreamId stream = source.ops[by].stream;
      if (stream != kComputeStream && (segment_[i] < 0 || by > i)) {
        culprit_ = stream;
        return false;
      }
      if (segment_[i] != segment_[by] || by > i) heard_outside_[by] = true;
    }
  return true;
}

}  // namespace tracecast::engine
