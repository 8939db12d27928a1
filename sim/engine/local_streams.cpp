#include "sim/engine/local_streams.hpp"

#include <algorithm>

#include "sim/graph/shared_transfers.hpp"

namespace tracecast::engine {
namespace {

/// [slot] True if every communicator in this slot has one member, and none of its collectives shares links. In the slot of
/// `lockstep`, those of ranks that may fuse operations.
std::vector<bool> single_member_slots(const StepGraph& graph, const SharedTransfers* shared, const Lockstep& lockstep) {
  std::size_t slots = 0;
  for (const Rank& rank : graph.ranks) slots = std::max(slots, rank.communicators.size());
  std::vector<bool> single(slots, true);
  for (const Rank& rank : graph.ranks)
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot) {
      const std::int32_t communicator = rank.communicators[slot];
      if (static_cast<std::int32_t>(slot) == lockstep.slot) continue;
      if (communicator >= 0 && graph.communicators[static_cast<std::size_t>(communicator)].members.size() != 1)
        single[slot] = false;
    }
  if (shared == nullptr) return single;
  for (std::size_t i = 0; i < graph.collectives.size(); ++i) {
    const auto slot = static_cast<std::size_t>(graph.collectives[i].slot);
    for (const Rank& rank : graph.ranks) {
      if (slot >= rank.communicators.size() || !single[slot] || graph.collectives[i].slot == lockstep.slot) continue;
      const std::int32_t communicator = rank.communicators[slot];
      if (communicator >= 0 && shared->of_collective(communicator, static_cast<std::int32_t>(i)) >= 0)
        single[slot] = false;
    }
  }
  return single;
}

/// Conditions for a rank-local stream that can be checked on one operation.
bool may_be_local(const StepGraph& graph, const Op& op, const std::vector<bool>& single) {
  if (!waits_for_local_events(op)) return false;
  const std::int32_t slot = graph.collectives[static_cast<std::size_t>(op.payload)].slot;
  return slot >= 0 && static_cast<std::size_t>(slot) < single.size() && single[static_cast<std::size_t>(slot)];
}

}  // namespace

bool waits_for_local_events(const Op& op) {
  return op.type == OpType::collective && !op.waits.empty() && (op.records.none() || op.records.local()) &&
         std::all_of(op.waits.begin(), op.waits.end(), [](EventRef ref) { return ref.local(); });
}

LocalStreams find_local_streams(const StepGraph& graph, const SharedTransfers* shared, const Lockstep& lockstep) {
  LocalStreams streams{true, std::vector<bool>(graph.streams.size(), true)};
  const bool in_lockstep = lockstep.slot >= 0;
  if (in_lockstep ? std::find(lockstep.members.begin(), lockstep.members.end(), 1) == lockstep.members.end()
                  : std::any_of(graph.ranks.begin(), graph.ranks.end(),
                                [](const Rank& r) { return r.slowdown != kNoSlowdown || r.first_batch >= 0; }))
    return {};
  const std::vector<bool> single = single_member_slots(graph, shared, lockstep);
  for (const Template& each : graph.templates)
    for (const Op& op : each.ops)
      if (op.type != OpType::host_sync && op.stream != kComputeStream && !may_be_local(graph, op, single))
        streams.local[op.stream] = false;
  TemplatePartition partition(graph, streams);
  for (std::size_t i = 0; i < graph.templates.size();) {
    if (partition.assign(graph.templates[i])) {
      ++i;
      continue;
    }
    if (partition.offending_stream() == kComputeStream) return {};
    streams.local[partition.offending_stream()] = false;
    i = 0;  // more runs begin now: templates that passed before may fail
  }
  return streams;
}

bool TemplatePartition::assign(const Template& source) {
  std::fill(recorder_.begin(), recorder_.end(), -1);
  run_.assign(source.ops.size(), -1);
  visible_outside_.assign(source.ops.size(), false);
  count_ = 0;
  return assign_runs(source) && find_outside_waits(source);
}

/// True if all events that `op` waits for are recorded earlier in the current run.
bool TemplatePartition::waits_inside(const Op& op) const {
  return std::all_of(op.waits.begin(), op.waits.end(), [this](EventRef ref) {
    return ref.local() && recorder(ref) >= 0 && run_[static_cast<std::size_t>(recorder(ref))] == count_ - 1;
  });
}

bool TemplatePartition::assign_runs(const Template& source) {
  for (std::size_t i = 0; i < source.ops.size(); ++i) {
    const Op& op = source.ops[i];
    if (is_local(op)) {
      const bool inside = count_ > 0 && waits_inside(op);
      if (!inside && op.stream != kComputeStream) {
        offending_stream_ = op.stream;
        return false;
      }
      if (!inside) ++count_;
      run_[i] = count_ - 1;
    }
    if (op.records.none() || !op.records.local()) continue;
    std::int32_t& recorder = recorder_[static_cast<std::size_t>(op.records.base)];
    if (recorder >= 0) {
      offending_stream_ = kComputeStream;
      return false;
    }
    recorder = static_cast<std::int32_t>(i);
  }
  return true;
}

/// The number of the last compute operation that a collective of a run depends on.
std::int32_t TemplatePartition::last_dependence(const Op& op, const std::vector<std::int32_t>& last_of_stream) const {
  std::int32_t last = last_of_stream[op.stream];
  for (const EventRef ref : op.waits) last = std::max(last, computes_before_[static_cast<std::size_t>(recorder(ref))]);
  return last;
}

const std::vector<std::size_t>& TemplatePartition::order(const Template& source) {
  order_.clear();
  computes_before_.assign(source.ops.size(), -1);
  std::vector<std::int32_t> last_of_stream(streams_.local.size(), -1);
  std::int32_t computes = 0;
  for (std::size_t i = 0; i < source.ops.size(); ++i) {
    if (run_[i] < 0) continue;
    const Op& op = source.ops[i];
    computes_before_[i] = op.stream == kComputeStream ? computes++ : last_dependence(op, last_of_stream);
    last_of_stream[op.stream] = computes_before_[i];
    order_.push_back(i);
  }
  const auto earlier = [&](std::size_t a, std::size_t b) {
    if (computes_before_[a] != computes_before_[b]) return computes_before_[a] < computes_before_[b];
    return source.ops[a].stream == kComputeStream && source.ops[b].stream != kComputeStream;
  };
  if (!std::is_sorted(order_.begin(), order_.end(), earlier)) std::stable_sort(order_.begin(), order_.end(), earlier);
  return order_;
}

/// Only rank-local streams may wait for a rank-local stream, and only later in the template.
bool TemplatePartition::find_outside_waits(const Template& source) {
  for (std::size_t i = 0; i < source.ops.size(); ++i) {
    const Op& op = source.ops[i];
    if (op.records.none()) continue;
    if (!op.records.local()) visible_outside_[i] = true;
  }
  for (std::size_t i = 0; i < source.ops.size(); ++i)
    for (const EventRef ref : source.ops[i].waits) {
      if (!ref.local() || recorder(ref) < 0) continue;
      const auto by = static_cast<std::size_t>(recorder(ref));
      if (run_[by] < 0) continue;
      const StreamId stream = source.ops[by].stream;
      if (stream != kComputeStream && (run_[i] < 0 || by > i)) {
        offending_stream_ = stream;
        return false;
      }
      if (run_[i] != run_[by] || by > i) visible_outside_[by] = true;
    }
  return true;
}

}  // namespace tracecast::engine
